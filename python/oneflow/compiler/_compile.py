"""Functions as pairs of programs: one for the forward pass, one for the backward pass."""

from __future__ import annotations

import copy
import functools
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow.autograd import Function
from oneflow.nn._building import Building, Kept
from oneflow.nn.modules.module import Module
from oneflow.nn._places import Places, user_depth
from oneflow.nn.structure import Modules, Names, flatten, modes_key, unflatten

# Kinds of inputs that a function is compiled for: each program has working memory of its own.
_KEPT = 16
_STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")
_stance = "default"
_all: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "oneflow",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Compile a function or a module.

    Args:
        model: a function of tensors, or a module. Without it a decorator is returned.
        fullgraph: raise where Python depends on data, instead of running such calls eagerly.
        dynamic: accepted; every kind of input (shapes, dtypes, devices) gets programs of its own, up to sixteen. More
            kinds run eagerly.
        backend: "eager" runs Python as it is; any other name compiles.
        mode: accepted.
        options: ``{"fuse": False}`` keeps the bits of eager execution.
        disable: return ``model`` as it is.

    Returns:
        a function with the same arguments; of a module, a module whose ``_orig_mod`` it is.

    Raises:
        TypeError: ``model`` cannot be called.

    Example::

        >>> f = oneflow.compile(lambda x: (x * 2).relu() + 1)
        >>> f(oneflow.tensor([-1.0, 2.0]))
        tensor([1., 5.])
    """
    if model is None:
        return functools.partial(
            compile,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
        )
    if not callable(model):
        raise TypeError(f"compile(): expected a function or a module, got {type(model).__name__}")
    if disable:
        return model
    fuse = bool((options or {}).get("fuse", True))
    eager = backend == "eager"
    if isinstance(model, Module):
        return OptimizedModule(model, CompiledFunction(model, fullgraph, fuse, eager))
    compiled = CompiledFunction(model, fullgraph, fuse, eager)

    @functools.wraps(model)
    def call(*args: Any, **kwargs: Any) -> Any:
        return compiled(*args, **kwargs)

    return call


class OptimizedModule(Module):
    """A compiled module. Attributes, parameters and modes are those of the module inside, ``_orig_mod``.

    Example::

        >>> type(oneflow.compile(nn.Linear(2, 1))).__name__
        'OptimizedModule'
    """

    def __init__(self, module: Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self._orig_mod = module
        object.__setattr__(self, "_compiled_call", call)
        self.training = module.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the compiled module."""
        return self._compiled_call(*args, **kwargs)

    def train(self, mode: bool = True) -> OptimizedModule:
        """Set the mode of the module inside too."""
        super().train(mode)
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_orig_mod"), name)


class CompiledFunction:
    """A callable with the programs it has been compiled to, by kind of input."""

    def __init__(self, function: Callable[..., Any], fullgraph: bool, fuse: bool, eager: bool) -> None:
        self._function = function
        self._fullgraph = fullgraph
        self._fuse = fuse
        self._eager = eager
        self._programs: dict[Any, _Programs | None] = {}
        self._flat = Modules(())
        self._names = Names(None)
        # Modules that the function calls without being one, and what traces write into modules.
        self._others: dict[int, Module] = {}
        self._moved: frozenset[tuple[int, str]] = frozenset()
        self._told = False
        _all.add(self)

    def reset(self) -> None:
        """Forget all programs.

        Example::

            >>> oneflow.compiler.reset()
        """
        self._programs.clear()

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        return CompiledFunction(copy.deepcopy(self._function, memo), self._fullgraph, self._fuse, self._eager)

    def __reduce__(self) -> Any:
        return CompiledFunction, (self._function, self._fullgraph, self._fuse, self._eager)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._eager or _stance == "force_eager" or _oneflow._is_tracing():
            return self._function(*args, **kwargs)
        tensors: list[Tensor] = []
        try:
            structure = flatten((args, kwargs), tensors, "input")
            key, programs = self._find(structure, tensors)
        except (TypeError, NotImplementedError) as error:
            return self._fall_back(error, args, kwargs)
        if programs is _NEW or (programs is not None and programs.is_stale()):
            if _stance == "eager_on_recompile":
                return self._function(*args, **kwargs)
            if programs is _NEW and len(self._programs) >= _KEPT:
                return self._run_eagerly(f"it has been compiled for {_KEPT} other kinds of inputs", args, kwargs)
            if _stance == "fail_on_recompile":
                raise RuntimeError(
                    f"compile: {self._name()} has no program for such inputs, and the stance is 'fail_on_recompile'"
                )
            building = Building(self._flat.all, _no_steps)
            try:
                programs = _compile(self._function, structure, tensors, self._fuse, building)
            except Exception as error:
                if self._fullgraph:
                    raise
                self._programs[key] = None
                return self._fall_back(error, args, kwargs)
            # Tracing may have met other modules.
            own = {id(m) for m in Modules(self._roots()).all}
            self._others.update((i, m) for i, m in building.called.items() if i not in own)
            self._moved |= building.moved
            self._look_again()
            programs.alive = (self._flat, self._flat.tensors(), self._names)
            self._programs[key[0], self._state()] = programs
        if programs is None:
            return self._function(*args, **kwargs)
        return programs(tensors)

    def _name(self) -> str:
        return getattr(self._function, "__qualname__", type(self._function).__name__)

    def _find(self, structure: Any, tensors: list[Tensor]) -> tuple[Any, Any]:
        """The key of a call, and what was kept for it: programs, None for eager execution, or _NEW."""
        metas = tuple([(t.shape, t.dtype, t.device, t.requires_grad) for t in tensors])
        inputs = (structure, metas, modes_key())
        key = (inputs, self._state())
        programs = self._programs.get(key, _NEW)
        if programs is _NEW:
            # A module may have got another child: list them again.
            self._look_again()
            key = (inputs, self._state())
            programs = self._programs.get(key, _NEW)
        return key, programs

    def _state(self) -> tuple[Any, ...]:
        return (self._flat.key(), self._names.key())

    def _roots(self) -> list[Module]:
        """The modules that the function is, belongs to or names."""
        module = _module(self._function)
        return [*([] if module is None else [module]), *self._names.modules()]

    def _look_again(self) -> None:
        self._names = Names(self._function)
        self._flat = Modules([*self._roots(), *self._others.values()], numbers=True, moved=self._moved)

    def _fall_back(self, error: BaseException, args: Any, kwargs: Any) -> Any:
        place = Places({}).of(error)
        at = "" if place is None else f" (at {place})"
        return self._run_eagerly(f"it cannot be traced: {error}{at}", args, kwargs)

    def _run_eagerly(self, why: str, args: Any, kwargs: Any) -> Any:
        result = self._function(*args, **kwargs)
        # Told only where eager execution works: otherwise the user sees the error itself.
        if not self._told:
            self._told = True
            text = f"compile: {self._name()} runs eagerly for such inputs, because {why}"
            warnings.warn(text, stacklevel=user_depth())
        return result


_NEW: Any = object()


class _Programs:
    """The forward program, and the backward one where something wants a gradient."""

    def __init__(self, structure: Any, forward: Any) -> None:
        self.structure = structure
        self.forward = forward
        self.backward: Any = None
        # What the key tells apart by identity is kept alive.
        self.alive: Any = None
        self.kept = Kept()
        # What autograd has to see: positions of inputs, and tensors from outside.
        self.wanted: list[int] = []
        self.captured: list[Tensor] = []
        self.n_outputs = 0
        self.differentiable: list[int] = []
        self.saved_inputs: list[int] = []
        # Which of wanted + captured have a gradient.
        self.reached: list[bool] = []

    def is_stale(self) -> bool:
        return self.forward.is_stale()

    def __call__(self, tensors: list[Tensor]) -> Any:
        if self.backward is None:
            results = self.forward.run(tensors)
        else:
            results = _Run.apply(self, tensors, *[tensors[i] for i in self.wanted], *self.captured)
        rest = iter(results)
        returned = unflatten(self.structure, rest)
        self.kept.put(rest)
        return returned


class _Run(Function):
    """One call of a compiled function, as autograd sees it."""

    @staticmethod
    def forward(ctx: Any, programs: _Programs, tensors: list[Tensor], *_: Tensor) -> Any:
        results = programs.forward.run(tensors)
        ctx.programs = programs
        ctx.save_for_backward(*[tensors[i] for i in programs.saved_inputs], *results[programs.n_outputs :])
        outputs = results[: programs.n_outputs]
        ctx.mark_non_differentiable(*[o for i, o in enumerate(outputs) if i not in programs.differentiable])
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        programs = ctx.programs
        if oneflow.is_grad_enabled():
            raise NotImplementedError(
                "compile: second derivatives through a compiled function are not supported: call the function itself"
            )
        given = [grads[i].contiguous() for i in programs.differentiable]
        made = iter(programs.backward.run([*ctx.saved_tensors, *given]))
        return (None, None, *[next(made) if reached else None for reached in programs.reached])


def _compile(
    function: Callable[..., Any], structure: Any, tensors: list[Tensor], fuse: bool, building: Building
) -> _Programs:
    if any(t.is_global for t in tensors):
        raise NotImplementedError("compile: global tensors run in nn.Graph")
    name = getattr(function, "__name__", type(function).__name__)
    trace = _oneflow._GraphTrace(name, Places({}))
    try:
        placeholders = [trace.input(t) for t in tensors]
        for placeholder, tensor in zip(placeholders, tensors, strict=True):
            if tensor.requires_grad:
                placeholder.requires_grad_()
        # A function may write to what it is given: leaves that want a gradient would refuse that.
        given = [p.view_as(p) if p.requires_grad else p for p in placeholders]
        args, kwargs = unflatten(structure, iter(given))
        outputs: list[Tensor] = []
        with building:
            result = flatten(function(*args, **kwargs), outputs, "result")
            outputs += building.settle(trace.has_met)
        # Results are memory of their own, whatever they alias in the function.
        outputs = [o.clone() if trace.is_external(o) else o for o in outputs]
        wanted = [i for i, t in enumerate(tensors) if t.requires_grad]
        captured = [t for t in trace.captured() if not any(t is p for p in placeholders)]
        differentiable = [i for i, o in enumerate(outputs) if o.requires_grad]
        if not differentiable or not oneflow.is_grad_enabled():
            programs = _Programs(result, trace.finish(outputs, fuse=fuse))
            programs.forward.watch(_memory(building), may_cease=True)
            programs.kept = building.kept
            return programs
        trace.cut()
        seeds = [trace.input(outputs[i]) for i in differentiable]
        ends = [*[placeholders[i] for i in wanted], *captured]
        # Hooks of the ends belong to the backward pass that will run this one.
        before = _oneflow._leave_out_leaf_hooks(True)
        try:
            grads = oneflow.autograd.grad([outputs[i] for i in differentiable], ends, seeds, allow_unused=True)
        finally:
            _oneflow._leave_out_leaf_hooks(before)
        found = [g.clone() if any(g is s for s in seeds) else g for g in grads if g is not None]
        forward, backward, saved_inputs, _ = trace.finish_parts([o.detach() for o in outputs], found, fuse=fuse)
    finally:
        trace.abort()
    programs = _Programs(result, forward)
    programs.backward = backward
    programs.wanted, programs.captured = wanted, captured
    programs.n_outputs, programs.differentiable = len(outputs), differentiable
    programs.saved_inputs = saved_inputs
    programs.reached = [g is not None for g in grads]
    programs.kept = building.kept
    forward.watch([*captured, *_memory(building)], may_cease=True)
    return programs


def _no_steps(optimizer: Any) -> None:
    raise NotImplementedError(
        f"{type(optimizer).__name__}.step() runs eagerly, as one op a group; nn.Graph compiles whole training steps"
    )


def _module(function: Any) -> Module | None:
    """The module that a function is, or is a method of."""
    owner = getattr(function, "__self__", function)
    return owner if isinstance(owner, Module) else None


def _memory(building: Building) -> list[Tensor]:
    found = [t for m in building.called.values() for part in (m._parameters, m._buffers) for t in part.values()]
    return list({id(t): t for t in found if t is not None}.values())


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return ``fn`` as it is: what is not compiled runs eagerly anyway. Also a decorator.

    Example::

        >>> oneflow.compiler.disable(lambda x: x + 1)(1)
        2
    """
    if fn is None:
        return lambda f: f
    return fn


def reset() -> None:
    """Forget all compiled programs.

    Example::

        >>> oneflow.compiler.reset()
    """
    for function in list(_all):
        function.reset()


def is_compiling() -> bool:
    """Whether this thread is tracing a function or a graph.

    Example::

        >>> oneflow.compiler.is_compiling()
        False
    """
    return bool(_oneflow._is_tracing())


is_dynamo_compiling = is_compiling


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """Return the names of backends that compile.

    Example::

        >>> isinstance(oneflow.compiler.list_backends(), list)
        True
    """
    return ["oneflow"]


def cudagraph_mark_step_begin() -> None:
    """Do nothing: programs run without recorded launches.

    Example::

        >>> oneflow.compiler.cudagraph_mark_step_begin()
    """


class set_stance:
    """Choose how compiled functions run. A function, a context manager and a decorator.

    Args:
        stance: "default" compiles for every new kind of input; "force_eager" runs Python as it is;
            "eager_on_recompile" runs what is compiled already, and all else eagerly; "fail_on_recompile" raises there.

    Raises:
        RuntimeError: another stance.

    Example::

        >>> with oneflow.compiler.set_stance("force_eager"):
        ...     oneflow.compile(lambda x: x + 1)(oneflow.ones(1))
        tensor([2.])
    """

    def __init__(self, stance: str = "default") -> None:
        global _stance
        if stance not in _STANCES:
            raise RuntimeError(f"set_stance(): invalid stance {stance!r}: expected one of {', '.join(_STANCES)}")
        self._before, self._stance = _stance, stance
        _stance = stance

    def __enter__(self) -> None:
        global _stance
        _stance = self._stance

    def __exit__(self, *_: Any) -> None:
        global _stance
        _stance = self._before

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        self.__exit__()

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self._stance):
                return fn(*args, **kwargs)

        return call
