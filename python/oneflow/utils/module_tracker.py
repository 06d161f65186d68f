"""Which modules are running, in the forward and in the backward pass."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any

from oneflow import Tensor, _oneflow
from oneflow.autograd.graph import register_multi_grad_hook
from oneflow.nn.modules import module as _hooks
from oneflow.utils import _pytree

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """Inside the context :attr:`parents` holds the names of the modules that are running, and "Global".

    The outermost module has the name of its class, those inside of it that of their attributes: "Net.conv". In a
    backward the modules are those whose forward the gradient belongs to.

    Example::

        >>> layer = oneflow.nn.Linear(2, 2)
        >>> with oneflow.utils.module_tracker.ModuleTracker() as tracker:
        ...     handle = layer.register_forward_pre_hook(lambda *_: print(sorted(tracker.parents)))
        ...     y = layer(oneflow.ones(1, 2))
        ['Global', 'Linear']
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._learnt: weakref.WeakSet[Any] = weakref.WeakSet()
        self._is_waiting = False

    @property
    def is_bw(self) -> bool:
        """Whether this thread is inside a backward."""
        return bool(_oneflow._C._backward_number() != 0)

    def _name(self, module: Any) -> str:
        name = self._names.setdefault(module, type(module).__name__)
        if module not in self._learnt:
            self._learnt.add(module)
            for child_name, child in module.named_children():
                self._names[child] = f"{name}.{child_name}"
                self._name(child)
        return name

    def _entered(self, name: str, is_bw: bool) -> Callable[..., None]:
        def enter(*_: Any) -> None:
            if is_bw:
                self._reset_after_backward()
            if name in self.parents and not self.is_bw:
                warnings.warn(
                    "The module hierarchy tracking seems to be broken as this Module was already entered. "
                    f"Entering {name} while {sorted(self.parents)} are running",
                    stacklevel=2,
                )
            self.parents.add(name)

        return enter

    def _left(self, name: str) -> Callable[..., None]:
        def leave(*_: Any) -> None:
            if name not in self.parents and not self.is_bw:
                warnings.warn(
                    "The module hierarchy tracking is confused as we're exiting a Module that was never entered: "
                    f"{name} of {sorted(self.parents)}",
                    stacklevel=2,
                )
            self.parents.discard(name)

        return leave

    def _reset_after_backward(self) -> None:
        if self._is_waiting:
            return

        def reset() -> None:
            self.parents = {"Global"}
            self._is_waiting = False

        _oneflow._C._queue_callback(reset)
        self._is_waiting = True

    def _before(self, module: Any, args: Any) -> None:
        name = self._name(module)
        self._entered(name, False)()
        if inputs := _with_gradient(args):
            register_multi_grad_hook(inputs, self._left(name))

    def _after(self, module: Any, args: Any, output: Any) -> None:
        name = self._name(module)
        self._left(name)()
        if outputs := _with_gradient(output):
            register_multi_grad_hook(outputs, self._entered(name, True))

    def __enter__(self) -> ModuleTracker:
        self.parents = {"Global"}
        self._handles = [
            _hooks.register_module_forward_pre_hook(self._before),
            _hooks.register_module_forward_hook(self._after),
        ]
        return self

    def __exit__(self, *exc: object) -> None:
        for handle in self._handles:
            handle.remove()


def _with_gradient(values: Any) -> list[Tensor]:
    leaves = _pytree.tree_leaves(values)
    return [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.requires_grad]
