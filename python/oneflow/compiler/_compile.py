"""Functions as pairs of programs: one for the forward pass, one for the backward pass."""

from __future__ import annotations

import copy
import functools
import warnings
import weakref
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._trace.building import Building, Kept
from oneflow._trace.dynamic import MARKED, Decided, Fitting, Open, automatic, compiled_at_sizes, marks_of, opened
from oneflow._trace.source_locations import SourceLocations, user_depth
from oneflow._trace.structure import (
    Modules,
    Names,
    flatten,
    flatten_call,
    modes_key,
    names_in,
    placeholders,
    unflatten,
)
from oneflow.autograd import Function
from oneflow.autograd._batching import is_batching
from oneflow.compiler import _settings
from oneflow.compiler._module import OptimizedModule
from oneflow.nn.modules.module import Module

# Kinds of inputs that a function is compiled for: each program has its own working memory.
_KEPT = 16
_all: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    dynamic_shapes: Any = None,
) -> Any:
    """Compile a function or a module.

    Args:
        model: a function of tensors, or a module. Without it a decorator is returned.
        fullgraph: raise where Python depends on data, instead of running such calls eagerly.
        dynamic: True compiles one program for all sizes of the dimensions that the function leaves open (equal sizes
            of the example are one dimension); where it follows from no size, each kind of input has its own, and a
            warning says so once. By default, and with False, every kind of input (shapes, dtypes, devices) has its own
            programs, up to ``recompile_limit``; more kinds run eagerly. Dimensions that are marked with
            ``oneflow._dynamo.mark_dynamic`` stay open unless it is False.
        backend: "eager" runs Python as it is; the other names of PyTorch's backends compile as "oneflow" does.
        mode: one of PyTorch's names; they change nothing.
        options: ``{"fuse": False}`` keeps the bits of eager execution.
        name: accepted.
        disable: return ``model`` as it is.
        recompile_limit: kinds of inputs that get programs, by default sixteen.
        isolate_recompiles: accepted; each call of this function counts its own kinds.
        dynamic_shapes: which dimensions stay open, as :func:`oneflow.export.export` takes it.

    Returns:
        a function with the same arguments; of a module, a module whose ``_orig_mod`` it is. Methods may be decorated:
        each module has its own programs.

    Raises:
        TypeError: ``model`` cannot be called.
        RuntimeError: an unknown mode or backend, or a mode and options.
        ValueError: ``dynamic=False`` with ``dynamic_shapes``. The first call raises it where a dimension that was named
            or marked cannot stay open, with the line of Python that needs its size.
        NotImplementedError: ``backend`` is a function: there is no graph of PyTorch's to pass to it.

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
            name=name,
            disable=disable,
            recompile_limit=recompile_limit,
            dynamic_shapes=dynamic_shapes,
        )
    if dynamic is False and dynamic_shapes:
        raise ValueError("compile(): dynamic=False and dynamic_shapes contradict each other")
    if not callable(model):
        raise TypeError(f"compile(): expected a function or a module, got {type(model).__name__}")
    if disable:
        return model
    _settings.check_mode(mode, options)
    fuse = bool((options or {}).get("fuse", True))
    settings = (fullgraph, fuse, _settings.runs_python(backend), recompile_limit or _KEPT, dynamic, dynamic_shapes)
    if isinstance(model, Module):
        return OptimizedModule(model, CompiledFunction(model, *settings))
    compiled = CompiledFunction(model, *settings)

    @functools.wraps(model)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not args or not isinstance(args[0], Module) or _oneflow._is_tracing():
            return compiled(*args, **kwargs)
        methods = args[0].__dict__.setdefault("_compiled_methods", {})
        own = methods.get(compiled)
        if own is None:
            own = methods[compiled] = CompiledFunction(MethodType(model, args[0]), *settings)
        return own(*args[1:], **kwargs)

    return call


class CompiledFunction:
    """A callable with the programs it has been compiled to, by kind of input."""

    def __init__(
        self,
        function: Callable[..., Any],
        fullgraph: bool,
        fuse: bool,
        eager: bool,
        limit: int = _KEPT,
        dynamic: bool | None = None,
        dynamic_shapes: Any = None,
    ) -> None:
        self._function = function
        self._dynamic, self._dynamic_shapes = dynamic, dynamic_shapes
        self._asked = bool(dynamic or dynamic_shapes)
        # The named dimensions of calls by the structure and the ranks of their inputs, those found first before others.
        self._open: dict[Any, list[Open]] = {}
        # Dimensions that cannot stay open, by the same and their axes.
        self._refused: set[Any] = set()
        # Sizes that Python decides by, by the same: a program for many sizes is not tried there again.
        self._alone: set[Any] = set()
        self._limit = limit
        self._fullgraph = fullgraph
        self._fuse = fuse
        self._eager = eager
        self._programs: dict[Any, _Programs | None] = {}
        self._flat = Modules(())
        self._names = Names(None)
        # Modules that the function calls without being one, and what traces write into modules.
        self._others: dict[int, Module] = {}
        self._moved: frozenset[tuple[int, str]] = frozenset()
        self._told = self._told_sizes = False
        _all.add(self)

    def reset(self) -> None:
        """Forget all programs.

        Example::

            >>> oneflow.compiler.reset()
        """
        self._programs.clear()
        self._open.clear()
        self._refused.clear()
        self._alone.clear()

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        return CompiledFunction(copy.deepcopy(self._function, memo), *self._settings())

    def __reduce__(self) -> Any:
        return CompiledFunction, (self._function, *self._settings())

    def _settings(self) -> tuple[Any, ...]:
        return (self._fullgraph, self._fuse, self._eager, self._limit, self._dynamic, self._dynamic_shapes)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        stance = _settings.stance()
        if self._eager or stance == "force_eager" or _oneflow._is_tracing() or is_batching():
            return self._function(*args, **kwargs)
        tensors: list[Tensor] = []
        try:
            structure = flatten_call(args, kwargs, tensors)
            if self._asked or MARKED:
                programs = self._for_all_sizes(structure, tensors, args, kwargs, stance)
                if programs is not None:
                    return programs(tensors)
            key, programs = self._find(structure, tensors)
        except (TypeError, NotImplementedError) as error:
            return self._fall_back(error, args, kwargs)
        if programs is _NEW or (programs is not None and programs.is_stale()):
            if stance == "eager_on_recompile":
                return self._function(*args, **kwargs)
            if programs is _NEW and len(self._programs) >= self._limit:
                return self._run_eagerly(f"it has been compiled for {self._limit} other kinds of inputs", args, kwargs)
            if stance == "fail_on_recompile":
                raise RuntimeError(
                    f"compile: {self._name()} has no program for such inputs, and the stance is 'fail_on_recompile'"
                )
            building = Building(self._flat.all, _no_steps)
            try:
                programs = _compile(self._function, structure, tensors, self._fuse, building, self._locations())
            except Exception as error:
                if self._fullgraph:
                    self._locations().annotate(error, f"{self._name()} was traced")
                    raise
                self._programs[key] = None
                return self._fall_back(error, args, kwargs)
            self._keep(key[0], programs, building)
        if programs is None:
            return self._function(*args, **kwargs)
        return programs(tensors)

    def _keep(self, inputs: Any, programs: _Programs, building: Building) -> None:
        """Put programs under their key, for which tracing may have met other modules."""
        own = {id(m) for m in Modules(self._roots()).all}
        self._others.update((i, m) for i, m in building.called.items() if i not in own)
        self._moved |= building.moved
        self._look_again()
        programs.alive = (self._flat, self._flat.tensors(), self._names)
        self._programs[inputs, self._state()] = programs

    def _for_all_sizes(
        self, structure: Any, tensors: list[Tensor], args: Any, kwargs: Any, stance: str
    ) -> _Programs | None:
        """The programs whose named dimensions these inputs fit; None where each kind of input has its own."""
        if self._dynamic is False:
            return None
        kind = (structure, tuple([(t.dim(), t.requires_grad) for t in tensors]))
        if self._alone and (kind, tuple([t.shape for t in tensors])) in self._alone:
            return None
        known = self._open.setdefault(kind, [])
        restricted: list[Open] = []
        for dims in known:
            inputs = (structure, dims.key(tensors), modes_key())
            programs = self._programs.get((inputs, self._state()))
            if programs is not None and not programs.is_stale():
                if programs.fits(tensors):
                    return programs
                programs.refuse(tensors, self._name())
                if programs.in_range(tensors) is not None:
                    restricted.append(dims)
        if stance != "default" or len(self._programs) >= self._limit:
            return None
        if restricted:
            # Python decides otherwise at these sizes: the same dimensions get another program.
            again = restricted[0].again(tensors, len(known))
            wanted, strict = [] if again is None else [again], False
        else:
            wanted, strict = self._wanted(structure, args, kwargs, tensors)
        error: Exception | None = None
        decided = False
        found: _Programs | None = None
        for dims in wanted:
            if not self._is_new(dims, structure, tensors) or (kind, frozenset(dims.axes)) in self._refused:
                continue
            building = Building(self._flat.all, _no_steps)
            try:
                programs = _compile_at_sizes(
                    self._function, structure, tensors, self._fuse, building, self._flat.all, self._locations(), dims
                )
            except ValueError as failed:
                if restricted or (isinstance(failed, Decided) and not strict):
                    decided = True
                    continue
                error = error or failed
                self._refused.add((kind, frozenset(dims.axes)))
                continue
            self._keep((structure, dims.key(tensors), modes_key()), programs, building)
            known.append(dims)
            found = programs if programs.fits(tensors) else None
            break
        if decided and found is None:
            # Python decides so at these sizes alone: they have a program of their own.
            self._alone.add((kind, tuple([t.shape for t in tensors])))
        if error is not None and strict:
            raise DimensionError(f"compile: {self._name()}: {error}") from error
        if error is not None and not self._told_sizes:
            self._told_sizes = True
            text = f"compile: {self._name()} is compiled for each size on its own, because {error}"
            warnings.warn(text, stacklevel=user_depth())
        return found

    def _is_new(self, dims: Open, structure: Any, tensors: list[Tensor]) -> bool:
        """Whether no program is for these dimensions yet, or the one that is has become stale."""
        programs = self._programs.get(((structure, dims.key(tensors), modes_key()), self._state()))
        return programs is None or programs.is_stale()

    def _wanted(self, structure: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> tuple[list[Open], bool]:
        """Choices of named dimensions, the best first, and whether the user has named them."""
        if any(t.is_global for t in tensors):
            return [], False
        named = opened(self._function, args, kwargs, self._dynamic_shapes, tensors)
        if named is not None:
            marks = [m for t in tensors for m in marks_of(t).values() if m is not None]
            return [named], bool(self._dynamic_shapes) or any(strict for _, _, strict in marks)
        if not self._dynamic:
            return [], False

        def runs(dims: Open) -> bool:
            inputs = dims.resized(tensors, dims.points([1] * len(dims.names))[0])
            building = Building(self._flat.all, _no_steps)
            try:
                _compile(self._function, structure, inputs, self._fuse, building, self._locations(), _no_end)
            except NotImplementedError:
                raise
            except (RuntimeError, ValueError, IndexError, TypeError):
                return False
            return True

        return automatic(tensors, runs), False

    def _name(self) -> str:
        return getattr(self._function, "__qualname__", type(self._function).__name__)

    def _locations(self) -> SourceLocations:
        module = _module(self._function)
        return SourceLocations({} if module is None else {id(m): path for path, m in module.named_modules() if path})

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
        self._flat = Modules([*self._roots(), *self._others.values()], self._moved, names_in(self._function))

    def _fall_back(self, error: BaseException, args: Any, kwargs: Any) -> Any:
        place = self._locations().of(error)
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
        # Objects that the key compares by identity are kept alive.
        self.alive: Any = None
        self.kept = Kept()
        # The tensors that autograd must see: inputs by position, and tensors from outside.
        self.wanted: list[int] = []
        self.captured: list[Tensor] = []
        self.n_outputs = 0
        self.differentiable: list[int] = []
        self.saved_inputs: list[int] = []
        # Which of wanted + captured have a gradient.
        self.reached: list[bool] = []
        # The function, as it is run again for second derivatives.
        self.again: Callable[[list[Tensor]], list[Tensor]] | None = None
        # Of programs for many sizes: those that they are for.
        self.fitting: Fitting | None = None

    def is_stale(self) -> bool:
        return self.forward.is_stale()

    def fits(self, tensors: list[Tensor]) -> bool:
        """Whether a program for many sizes is for these sizes."""
        if self.fitting is None:
            return True
        sizes = self.in_range(tensors)
        return sizes is not None and self.fitting.allows(tensors, sizes)

    def in_range(self, tensors: list[Tensor]) -> list[int] | None:
        """The sizes of the named dimensions, if they are in their ranges and all inputs agree about them."""
        assert self.fitting is not None
        dims = self.fitting.dims
        sizes = dims.sizes(tensors)
        if sizes is None or not dims.agree(tensors, sizes):
            return None
        rows = zip(sizes, self.fitting.least, dims.ranges, strict=True)
        return sizes if all(max(least, low) <= n <= high for n, least, (low, high) in rows) else None

    def refuse(self, tensors: list[Tensor], name: str) -> None:
        """Raise DimensionError where a size is outside of the range that the user gave."""
        dims = None if self.fitting is None else self.fitting.dims
        sizes = None if dims is None else dims.sizes(tensors)
        if dims is not None and sizes is not None and dims.agree(tensors, sizes):
            complaint = dims.complaint(sizes)
            if complaint is not None:
                raise DimensionError(f"compile: {name}: {complaint}")

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
        ctx.position = _position()
        ctx.sizes = None if programs.fitting is None else programs.fitting.dims.sizes(tensors)
        results = programs.forward.run(tensors)
        ctx.programs, ctx.given = programs, [(t, _version(t)) for t in tensors]
        ctx.save_for_backward(*[tensors[i] for i in programs.saved_inputs], *results[programs.n_outputs :])
        outputs = results[: programs.n_outputs]
        ctx.mark_non_differentiable(*[o for i, o in enumerate(outputs) if i not in programs.differentiable])
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        programs = ctx.programs
        if oneflow.is_grad_enabled():
            return (None, None, *_differentiable_gradients(ctx, grads))
        given = [grads[i].contiguous() for i in programs.differentiable]
        inputs = [*ctx.saved_tensors, *given]
        backward = programs.backward
        made = iter(backward.run(inputs) if ctx.sizes is None else backward.run_at(inputs, ctx.sizes))
        return (None, None, *[next(made) if reached else None for reached in programs.reached])


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _position() -> int | Tensor:
    """Where the default generator stands: an offset, or the state of an engine whose numbers come in one order."""
    try:
        return oneflow.default_generator.get_offset()
    except RuntimeError:
        return oneflow.default_generator.get_state()


def _return_to(position: int | Tensor) -> None:
    generator = oneflow.default_generator
    generator.set_offset(position) if isinstance(position, int) else generator.set_state(position)


def _differentiable_gradients(ctx: Any, grads: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated again: those of the function, run eagerly with the random numbers it had."""
    programs, given = ctx.programs, [t for t, _ in ctx.given]
    if programs.again is None:
        raise NotImplementedError(
            "compile: second derivatives run the function again, and this one writes to tensors: call it uncompiled"
        )
    if any(_version(t) != version for t, version in ctx.given):
        raise RuntimeError(
            "compile: an input of a compiled function was modified by an inplace operation before its second derivative"
        )
    before = _position()
    _return_to(ctx.position)
    try:
        outputs = programs.again(given)
    finally:
        _return_to(before)
    starts = [outputs[i] for i in programs.differentiable]
    ends = [*[given[i] for i in programs.wanted], *programs.captured]
    seeds = [grads[i] for i in programs.differentiable]
    return oneflow.autograd.grad(starts, ends, seeds, create_graph=True, allow_unused=True)


def _compile(
    function: Callable[..., Any],
    structure: Any,
    tensors: list[Tensor],
    fuse: bool,
    building: Building,
    locations: SourceLocations,
    end: Callable[..., Any] | None = None,
    expand: Sequence[str] = (),
) -> _Programs:
    """Trace and compile.

    ``end`` is called in place of the compilation: with the trace, the results of the forward part, the gradients or
    None, and what has to be the same at all sizes; it returns what the compilation does. Calls of the ops ``expand``
    are traced as their compositions.
    """
    if any(t.is_global for t in tensors):
        raise NotImplementedError("compile: global tensors run in nn.Graph")
    name = getattr(function, "__name__", type(function).__name__)
    trace = _oneflow._GraphTrace(name, locations)
    _settings.set_compiling(True)
    try:
        if expand:
            trace.expand(list(expand))
        inputs = placeholders(trace, tensors)
        for placeholder, tensor in zip(inputs, tensors, strict=True):
            if tensor.requires_grad:
                placeholder.requires_grad_()
        # A function may write to its inputs, which leaves that require a gradient would refuse.
        given = [p.view_as(p) if p.requires_grad else p for p in inputs]
        args, kwargs = unflatten(structure, iter(given))
        outputs: list[Tensor] = []
        with building:
            result = flatten(function(*args, **kwargs), outputs, "result")
            outputs += building.settle(trace.has_met)
        # Results have their own memory, whatever they alias in the function.
        outputs = [o.clone() if trace.is_external(o) else o for o in outputs]
        wanted = [i for i, t in enumerate(tensors) if t.requires_grad]
        captured = [t for t in trace.captured() if not any(t is p for p in inputs)]
        leaves = [t.grad for t in (*inputs, *captured) if t.is_leaf and t.grad is not None]
        if any(grad.is_lazy or trace.has_met(grad) for grad in leaves):
            raise NotImplementedError("backward() is called in it; nn.Graph compiles whole training steps")
        differentiable = [i for i, o in enumerate(outputs) if o.requires_grad]
        if not differentiable or not oneflow.is_grad_enabled():
            forward = trace.finish(outputs, fuse=fuse) if end is None else end(trace, outputs, None, (result,))
            programs = _Programs(result, forward)
            if forward is None:
                return programs
            programs.forward.watch(_memory(building), may_cease=True)
            programs.kept = building.kept
            return programs
        trace.cut()
        seeds = [trace.input(outputs[i]) for i in differentiable]
        ends = [*[inputs[i] for i in wanted], *captured]
        # Hooks of the outputs belong to the backward pass that will run this one.
        before = _oneflow._leave_out_leaf_hooks(True)
        try:
            grads = oneflow.autograd.grad([outputs[i] for i in differentiable], ends, seeds, allow_unused=True)
        finally:
            _oneflow._leave_out_leaf_hooks(before)
        found = [g.clone() if any(g is s for s in seeds) else g for g in grads if g is not None]
        outputs = [o.detach() for o in outputs]
        if end is None:
            forward, backward, saved_inputs, _ = trace.finish_parts(outputs, found, fuse=fuse)
        else:
            reached = tuple(g is not None for g in grads)
            forward, backward, saved_inputs, _ = end(trace, outputs, found, (result, tuple(differentiable), reached))
            if forward is None:
                return _Programs(result, None)
    finally:
        _settings.set_compiling(False)
        trace.abort()
    programs = _Programs(result, forward)
    programs.backward = backward
    programs.wanted, programs.captured = wanted, captured
    programs.n_outputs, programs.differentiable = len(outputs), differentiable
    programs.saved_inputs = saved_inputs
    programs.reached = [g is not None for g in grads]
    programs.kept = building.kept
    if not building.kept.places and " <- " not in forward.text(True):

        def again(given: list[Tensor]) -> list[Tensor]:
            args, kwargs = unflatten(structure, iter(given))
            found: list[Tensor] = []
            flatten(function(*args, **kwargs), found, "result")
            return found

        programs.again = again
    forward.watch([*captured, *_memory(building)], may_cease=True)
    return programs


def _no_end(trace: Any, outputs: list[Tensor], grads: list[Tensor] | None, made: Any) -> Any:
    return None if grads is None else (None, None, [], 0)


class DimensionError(ValueError):
    """A dimension that was to stay open cannot."""


def _compile_at_sizes(
    function: Callable[..., Any],
    structure: Any,
    tensors: list[Tensor],
    fuse: bool,
    building: Building,
    modules: Any,
    locations: SourceLocations,
    dims: Open,
) -> _Programs:
    """One pair of programs for all sizes of the named dimensions.

    Raises:
        SizeError: the function does not follow from them; the error has the place in it.
    """

    def trace(inputs: list[Tensor], expand: Sequence[str]) -> tuple[Any, Any]:
        found: list[Any] = []

        def end(trace: Any, outputs: list[Tensor], grads: list[Tensor] | None, made: Any) -> Any:
            found.extend((trace.finish_traced([*outputs, *(grads or [])]), made))
            return None if grads is None else (None, None, [], 0)

        _compile(function, structure, inputs, fuse, Building(modules, _no_steps), locations, end, expand)
        return found[0], found[1]

    def compile(
        traced: list[Any], checks: list[Any], named: list[Any], points: list[list[int]], asked: list[Any]
    ) -> Any:
        def end(trace: Any, outputs: list[Tensor], grads: list[Tensor] | None, made: Any) -> Any:
            trace.abort()
            if grads is None:
                return _oneflow._compile_at_sizes(traced, checks, named, points, asked, fuse=fuse)
            return _oneflow._compile_parts_at_sizes(traced, checks, len(outputs), named, points, asked, fuse=fuse)

        return _compile(function, structure, dims.resized(tensors, points[0]), fuse, building, locations, end)

    programs, _, unseen = compiled_at_sizes(dims, trace, tensors, compile)
    programs.fitting = Fitting(dims, programs.forward, unseen)
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


def reset() -> None:
    """Forget all compiled programs.

    Example::

        >>> oneflow.compiler.reset()
    """
    for function in list(_all):
        function.reset()
