"""Effects of a traced function on modules: which it calls, what it writes into them, which parts backward recomputes.

A traced tensor has no values, so none may stay behind in a module. A buffer that got another tensor keeps its memory
and gets the value; a new buffer or another attribute is a result of the program, put in its place after every run;
where neither is possible the trace is refused. When tracing fails, attributes are as they were.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._trace.pipeline import watch_backward
from oneflow._trace.structure import TENSOR, flatten, unflatten
from oneflow.nn.modules.module import Module, register_module_forward_pre_hook

# Attributes of a module besides its own.
_STRUCTURE = frozenset(Module().__dict__) - {"training"}
_Attributes = dict[str, Any]


class Building:
    """A context around the traced function, for one thread.

    Args:
        modules: those known beforehand; others are noted when they are called.
        steps: called with an optimizer before each of its steps.
        owner: something else whose public attributes may be written, such as a graph.
        section: called where the forward of a pipeline stage begins (its number, False), and its backward (True).
    """

    def __init__(
        self,
        modules: Iterable[Module],
        steps: Callable[[Any], None],
        owner: Any = None,
        section: Callable[[int, bool], None] | None = None,
    ) -> None:
        self.called: dict[int, Module] = {}
        # Attributes that are no tensors and were written: (id of the module, name).
        self.moved: set[tuple[int, str]] = set()
        self.kept = Kept()
        self._thread = threading.get_ident()
        # Of each owner its attributes, buffers and parameters.
        self._before: list[tuple[Any, _Attributes, _Attributes, _Attributes]] = []
        self._repeated: list[tuple[_Attributes, Any]] = []
        self._known = list(modules)
        self._owner = owner
        self._steps = steps
        self._section = section

    def __enter__(self) -> Building:
        if self._owner is not None:
            public = {k: _copied(v) for k, v in self._owner.__dict__.items() if not k.startswith("_")}
            self._before.append((self._owner, public, {}, {}))
        for module in self._known:
            self._note(module)
        self._hooks = [
            register_module_forward_pre_hook(self._calls),
            oneflow.optim.optimizer.register_optimizer_step_pre_hook(self._before_step),
        ]
        return self

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if threading.get_ident() == self._thread:
            self._steps(optimizer)

    def _calls(self, module: Module, args: Any) -> None:
        if id(module) not in self.called and threading.get_ident() == self._thread:
            self._note(module)

    def _note(self, module: Module) -> None:
        self.called[id(module)] = module
        own = {k: _copied(v) for k, v in module.__dict__.items() if k not in _STRUCTURE}
        self._before.append((module, own, dict(module._buffers), dict(module._parameters)))
        marks = module.__dict__.get("_in_graphs")
        if marks:
            self._repeated.append((module.__dict__, module.__dict__.get("forward", _MISSING)))
            module.__dict__["forward"] = functools.partial(_marked, marks, module.forward, self._section)

    def __exit__(self, kind: Any, *_: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        for attributes, forward in self._repeated:
            attributes.pop("forward", None) if forward is _MISSING else attributes.update(forward=forward)
        if kind is not None:
            self._restore()

    def _restore(self) -> None:
        for owner, own, buffers, parameters in self._before:
            _put_back(owner.__dict__, own, [n for n in {**owner.__dict__, **own} if self._is_own(owner, n)])
            if isinstance(owner, Module):
                for held, before in ((owner._buffers, buffers), (owner._parameters, parameters)):
                    _put_back(held, before, [n for n, t in held.items() if t is not None and t.is_lazy])
                owner._buffers.update(buffers)

    def _is_own(self, owner: Any, name: str) -> bool:
        return not name.startswith("_") if owner is self._owner else name not in _STRUCTURE

    def settle(self, is_read: Callable[[Tensor], bool]) -> list[Tensor]:
        """End what was written into modules; return the tensors that are results of the program for ``kept``.

        Args:
            is_read: returns whether the trace has read a tensor from outside.

        Raises:
            NotImplementedError: something was written that a program cannot bring up to date.
        """
        results: list[Tensor] = []
        for owner, own, buffers, _ in self._before:
            if isinstance(owner, Module):
                self._settle_buffers(owner, buffers, results)
                _refuse_parameters(owner)
            for name, value in list(owner.__dict__.items()):
                before = own.get(name, _MISSING)
                if value is before or not self._is_own(owner, name):
                    continue
                if _holds_traced(value):
                    self._settle_attribute(owner, name, before, own, is_read, results)
                elif not (isinstance(before, _Copy) and before.value is value):
                    self.moved.add((id(owner), name))
        return results

    def _settle_attribute(
        self,
        owner: Any,
        name: str,
        before: Any,
        own: _Attributes,
        is_read: Callable[[Tensor], bool],
        results: list[Tensor],
    ) -> None:
        value = owner.__dict__[name]
        where = f"{type(owner).__name__}.{name}"
        _put_back(owner.__dict__, own, [name])
        if isinstance(before, _Copy) and before.value is value:
            raise NotImplementedError(
                f"nn.Graph: {where} is a {type(value).__name__} that is written in place while build is traced: "
                "assign a new one, or return the tensors from build"
            )
        if isinstance(before, Tensor) and isinstance(value, Tensor) and not before.is_lazy and is_read(before):
            if _layout(before) != _layout(value):
                raise NotImplementedError(
                    f"nn.Graph: {where} is read in build as {_text(before)} and becomes {_text(value)}: a program can "
                    "only give it other values"
                )
            with oneflow.no_grad():
                before.copy_(value.detach())
            return
        tensors: list[Tensor] = []
        structure = flatten(value, tensors, "result")
        results += tensors
        self.kept.places.append((owner.__dict__, name, structure))
        self.moved.add((id(owner), name))

    def _settle_buffers(self, module: Module, before: dict[str, Any], results: list[Tensor]) -> None:
        for name, new in list(module._buffers.items()):
            old = before.get(name)
            if new is None or not new.is_lazy:
                continue
            _put_back(module._buffers, before, [name])
            if old is None:
                results.append(new)
                self.kept.places.append((module._buffers, name, TENSOR))
                continue
            if _layout(old) != _layout(new):
                raise NotImplementedError(
                    f"nn.Graph: buffer {name!r} of {type(module).__name__} becomes {_text(new)} in build and was "
                    f"{_text(old)}: a program can only give it other values"
                )
            with oneflow.no_grad():
                old.copy_(new.detach())


def _refuse_parameters(module: Module) -> None:
    for name, parameter in module._parameters.items():
        if parameter is not None and parameter.is_lazy:
            raise NotImplementedError(
                f"nn.Graph: parameter {name!r} of {type(module).__name__} is made in build, of traced tensors without "
                "values: make it in __init__, or call the module once before"
            )


class Kept:
    """Attributes that get results of every run: where they are, and their structure."""

    def __init__(self) -> None:
        self.places: list[tuple[_Attributes, str, Any]] = []

    def put(self, results: Iterator[Tensor]) -> None:
        """Take the tensors of all places from ``results``."""
        for attributes, name, structure in self.places:
            attributes[name] = unflatten(structure, results)


class _Copy:
    """A list or dict and what was in it."""

    def __init__(self, value: Any) -> None:
        self.value, self._content = value, value.copy()

    def restore(self) -> Any:
        if isinstance(self.value, list):
            self.value[:] = self._content
        else:
            self.value.clear()
            self.value.update(self._content)
        return self.value


_MISSING: Any = object()


def _copied(value: Any) -> Any:
    return _Copy(value) if type(value) in (list, dict) else value


def _put_back(attributes: _Attributes, before: _Attributes, names: list[str]) -> None:
    for name in names:
        if name in before:
            value = before[name]
            attributes[name] = value.restore() if isinstance(value, _Copy) else value
        else:
            attributes.pop(name, None)


def _layout(tensor: Tensor) -> tuple[Any, ...]:
    return (tuple(tensor.shape), tensor.dtype, tensor.device)


def _text(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} of {tensor.dtype}"


def _holds_traced(value: Any, depth: int = 4) -> bool:
    if isinstance(value, Tensor):
        return bool(value.is_lazy)
    if depth == 0 or not isinstance(value, (list, tuple, dict)):
        return False
    return any(_holds_traced(v, depth - 1) for v in (value.values() if isinstance(value, dict) else value))


def _marked(marks: dict[str, Any], forward: Any, section: Any, *args: Any, **kwargs: Any) -> Any:
    """The forward of a module that was marked through ``nn.graph.GraphModule``."""
    placement = marks.get("placement")
    if placement is not None:
        args = tuple([_placed(a, placement) for a in args])
        kwargs = {k: _placed(v, placement) for k, v in kwargs.items()}
    stage = marks.get("stage") if section is not None else None
    if stage is not None:
        section(stage, False)
    if marks.get("checkpoint") and oneflow.is_grad_enabled():
        from oneflow.utils.checkpoint import checkpoint

        result = checkpoint(forward, *args, use_reentrant=False, **kwargs)
    else:
        result = forward(*args, **kwargs)
    if stage is not None:
        watch_backward(result, stage, section)
    return result


def _placed(value: Any, placement: Any) -> Any:
    elsewhere = isinstance(value, Tensor) and value.is_global and value.placement != placement
    return value.to_global(placement=placement) if elsewhere else value


def stages_after(modules: Iterable[Module]) -> int:
    """Return how many pipeline stages there are behind this rank's last: placements with numbers, or in order."""
    stages: dict[Any, int] = {}
    tops = list(modules)
    for module in [m for top in tops for m in top.modules()]:
        marks = module.__dict__.get("_in_graphs", {})
        if marks.get("placement") is not None and marks.get("stage") is not None:
            stages.setdefault(marks["placement"], marks["stage"])
    if not stages:
        for parameter in [p for top in tops for p in top.parameters() if p.is_global]:
            stages.setdefault(parameter.placement, len(stages))
    rank = oneflow.distributed.get_rank()
    mine = [stage for placement, stage in stages.items() if rank in placement.ranks]
    return len({stage for stage in stages.values() if mine and stage > max(mine)})


# The way to each module from the graph that holds it.
_PATHS: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()


def name_paths(name: str, module: Module) -> None:
    """Note the paths of a module that a graph holds by this name, and of all below it."""
    _PATHS.update((child, path) for path, child in module.named_modules(prefix=name))


class GraphModule:
    """A graph's settings for a module: ``module.to(nn.graph.GraphModule)``. Eager calls of the module do not change.

    Example::

        >>> layer = oneflow.nn.Linear(2, 2)
        >>> layer.to(oneflow.nn.graph.GraphModule).activation_checkpointing = True
        >>> layer.to(oneflow.nn.graph.GraphModule).activation_checkpointing
        True
    """

    def __init__(self, module: Module) -> None:
        self._module = module

    @classmethod
    def _of_module(cls, module: Module) -> GraphModule:
        # Called by `Module.to`.
        return cls(module)

    @property
    def _marks(self) -> dict[str, Any]:
        return self._module.__dict__.setdefault("_in_graphs", {})

    @property
    def activation_checkpointing(self) -> bool:
        """Whether backward runs the module's forward again instead of keeping what it saved."""
        return bool(self._marks.get("checkpoint", False))

    @activation_checkpointing.setter
    def activation_checkpointing(self, value: bool = False) -> None:
        self._marks["checkpoint"] = bool(value)

    @property
    def stage_id(self) -> int | None:
        """The pipeline stage that :meth:`set_stage` named. Setting it leaves the placement."""
        return self._marks.get("stage")

    @stage_id.setter
    def stage_id(self, value: int | None = None) -> None:
        self.set_stage(value, self.stage_placement)

    @property
    def name(self) -> str:
        """The module's name in its graph: the last part of :attr:`path`. Empty while no graph holds it."""
        return self.path.rpartition(".")[2]

    @property
    def name_prefix(self) -> str:
        """The part of the path before :attr:`name`, with the dot."""
        return self.path[: len(self.path) - len(self.name)]

    @property
    def path(self) -> str:
        """The way to the module from the graph that holds it, such as "model.layers.0"."""
        return _PATHS.get(self._module, "")

    @property
    def stage_placement(self) -> Any:
        """The placement that :meth:`set_stage` named."""
        return self._marks.get("placement")

    def set_stage(self, stage_id: int | None = None, placement: Any = None) -> None:
        """Name the pipeline stage a module belongs to.

        Args:
            stage_id: number of the stage: of micro-batches (``set_gradient_accumulation_steps``) a rank runs as many
                forwards ahead of their backwards as there are stages with higher numbers. Without numbers, stages are
                counted in the order of the modules.
            placement: of the module's parameters; global tensors that are passed to it are moved there.

        Raises:
            TypeError: the number is no integer, or ``placement`` no placement.
        """
        if stage_id is not None and (not isinstance(stage_id, int) or isinstance(stage_id, bool)):
            raise TypeError(f"set_stage(): stage_id must be an integer, got {stage_id!r}")
        if placement is not None and not isinstance(placement, oneflow.placement):
            raise TypeError(f"set_stage(): expected a placement, got {type(placement).__name__}")
        self._marks.update(stage=stage_id, placement=placement)

    def debug(self, v_level: int = -1, *, op_repr_with_py_stack: bool = False) -> None:
        """Choose what is printed of this module when a graph compiles, whatever the graph prints of itself.

        Args:
            v_level: -1 nothing; 0 or 1 the module; 2 or 3 also its ops as they run, those of its backward separately.
            op_repr_with_py_stack: print the lines of Python that the ops come from.

        Raises:
            ValueError: another level.
        """
        if not isinstance(v_level, int) or not -1 <= v_level <= 3:
            raise ValueError(f"GraphModule.debug(): v_level must be -1, 0, 1, 2 or 3, got {v_level!r}")
        self._marks["debug"] = (v_level, op_repr_with_py_stack)

    def to(self, kind: Any) -> Any:
        """``to(nn.Module)`` is the module itself, ``to(nn.graph.GraphModule)`` this.

        Raises:
            TypeError: anything else.
        """
        if kind is Module:
            return self._module
        if kind is GraphModule:
            return self
        raise TypeError(f"GraphModule.to(): expected nn.Module or nn.graph.GraphModule, got {kind!r}")

    def __repr__(self) -> str:
        return f"GraphModule({self._module!r}, {self._marks})"
