"""``replicate``: ``DistributedDataParallel`` without a wrapper, so that names and forward stay those of the module."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable
from typing import Any, NoReturn

import oneflow
from oneflow import Tensor
from oneflow.distributed.fsdp._state import state_of
from oneflow.nn import Module
from oneflow.nn._ddp import DistributedDataParallel

__all__ = ["DDP", "replicate"]


class _State:
    """What a replicated module knows of its reductions, which are set up by the first forward."""

    def __init__(self, ignored: set[Module], options: dict[str, Any]) -> None:
        self._ignored, self._options = ignored, options
        self._hooks: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.no_sync = False
        self._ddp: DistributedDataParallel | None = None
        self._ddp_weakref: Any = lambda: None

    def register_comm_hook(self, *args: Any, **kwargs: Any) -> None:
        if self._ddp is None:
            self._hooks.append((args, kwargs))
        else:
            self._ddp.register_comm_hook(*args, **kwargs)

    def _managed(self, module: Module) -> list[Tensor]:
        """Parameters below the module that nobody else takes care of."""
        skipped = {id(p) for other in self._ignored for p in other.parameters()}
        found: dict[int, Tensor] = {}
        # A function that calls itself would be a cycle, which keeps the parameters until a collection.
        left = [module]
        while left:
            inner = left.pop()
            if inner in self._ignored or state_of(inner) is not None:
                continue
            for param in inner._parameters.values():
                if param is not None and id(param) not in skipped:
                    found.setdefault(id(param), param)
            left += reversed(list(inner.children()))
        return list(found.values())

    def before(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        if self._ddp is None:
            self._ddp = DistributedDataParallel(oneflow.nn.ParameterList(self._managed(module)), **self._options)
            self._ddp_weakref = weakref.ref(self._ddp)
            for hook_args, hook_kwargs in self._hooks:
                self._ddp.register_comm_hook(*hook_args, **hook_kwargs)
        self._ddp.require_backward_grad_sync = not self.no_sync
        return self._ddp._before(args, kwargs)

    def after(self, module: Module, args: Any, output: Any) -> Any:
        assert self._ddp is not None
        return self._ddp._after(output)


class DDP:
    """What :func:`replicate` adds to the class of a module."""

    def set_requires_gradient_sync(self, requires_gradient_sync: bool) -> None:
        """Choose whether backwards of the next forwards average gradients: without, they add up on each rank.

        Example::

            >>> from oneflow.distributed._composable import replicate
            >>> model = replicate(nn.Linear(2, 1))
            >>> model.set_requires_gradient_sync(False)
        """
        _state_of(self).no_sync = not requires_gradient_sync

    def register_comm_hook(self, *args: Any, **kwargs: Any) -> None:
        """Let a function reduce buckets: see :meth:`oneflow.nn.parallel.DistributedDataParallel.register_comm_hook`.

        Example::

            >>> from oneflow.distributed._composable import replicate
            >>> from oneflow.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
            >>> replicate(nn.Linear(2, 1)).register_comm_hook(None, fp16_compress_hook)
        """
        _state_of(self).register_comm_hook(*args, **kwargs)

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise AssertionError("DDP does not support deepcopy. Please use state dict for serialization.")


def replicate(module: Module, ignored_modules: Iterable[Module] | None = None, **kwargs: Any) -> Module:
    """Average the gradients of a module over ranks, as ``DistributedDataParallel`` does, in place.

    Parameters that ``fully_shard`` takes care of stay with it. The first forward makes the parameters those of the
    first rank; buffers stay each rank's own.

    Args:
        module: is returned, with the methods of :class:`DDP`.
        ignored_modules: modules below it whose parameters nobody averages.
        kwargs: as for :class:`oneflow.nn.parallel.DistributedDataParallel`; ``device_id`` in place of ``device_ids``,
            ``device_mesh`` of one dimension in place of ``process_group``.

    Raises:
        RuntimeError: ``device_id`` is no device, or the module is sharded.
        ValueError: it is replicated already.

    Example::

        >>> from oneflow.distributed._composable import replicate
        >>> def rank():
        ...     model = replicate(nn.Linear(1, 1, bias=False))
        ...     model(oneflow.full((1, 1), oneflow.distributed.get_rank() + 1.0)).sum().backward()
        ...     return model.weight.grad.item()
        >>> oneflow.testing.run_ranks(2, rank)  # Gradients 1 and 2.
        [1.5, 1.5]
    """
    if state_of(module) is not None:
        raise RuntimeError("Cannot apply `replicate()` on a Module already managed by `fully_shard`")
    if "_replicate_state" in module.__dict__:
        raise ValueError(f"replicate: {type(module).__name__} is replicated already")
    state = _State(set(ignored_modules or ()), _options(kwargs))
    object.__setattr__(module, "_replicate_state", state)
    module.register_forward_pre_hook(state.before, with_kwargs=True)
    module.register_forward_hook(state.after)
    kind = type(module)
    module.__class__ = _replicated_class(kind)  # type: ignore[arg-type]
    return module


def _options(kwargs: dict[str, Any]) -> dict[str, Any]:
    options = dict(kwargs)
    if "device_id" in options:
        device = options.pop("device_id")
        if isinstance(device, bool) or not isinstance(device, (int, oneflow.device)):
            raise RuntimeError(f"Expected device_id to be int or torch.device, but got {type(device)}")
        is_cpu = isinstance(device, oneflow.device) and device.type == "cpu"
        options["device_ids"] = None if is_cpu else [device]
    mesh = options.pop("device_mesh", None)
    if mesh is not None:
        if options.get("process_group") is not None or mesh.ndim != 1:
            raise RuntimeError(f"replicate: device_mesh has one dimension and stands for process_group, got {mesh}")
        options["process_group"] = mesh.get_group()
    return options


def _state_of(module: Any) -> _State:
    return module.__dict__["_replicate_state"]


replicate.state = _state_of  # type: ignore[attr-defined]


@functools.cache
def _replicated_class(kind: type) -> type:
    return type(f"DDP{kind.__name__}", (DDP, kind), {"__module__": kind.__module__})
