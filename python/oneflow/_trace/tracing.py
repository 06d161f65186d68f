"""The trace of a graph: build, backward, and the steps of optimizers, as they are written for eager execution."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base.untraced import untraced
from oneflow._trace import pipeline
from oneflow._trace.building import Building, stages_after
from oneflow._trace.dynamic import Fitting, Open, compiled_at_sizes
from oneflow._trace.lookups import Lookups
from oneflow._trace.micro_batches import MicroBatches
from oneflow._trace.optimizer_states import States
from oneflow._trace.program import Program, name_state, traced_step
from oneflow._trace.seen import Seen
from oneflow._trace.source_locations import SourceLocations, paths_of
from oneflow._trace.structure import flatten, placeholders, unflatten, wanting
from oneflow._trace.zero import Zero
from oneflow.nn.utils.clip_grad import gradients_follow

if TYPE_CHECKING:
    from oneflow.nn.graph import Graph


def slices(graph: Graph, moves: bool = True) -> Zero | None:
    """Let each rank keep its slices of parameters and states, and move what is offloaded, if the graph wants that.

    Without ``moves`` what is offloaded stays: of a described rank there is nothing to move. Ranks exchange parts here,
    so no lock may be held that ranks of one process share.
    """
    zero, offload = None, graph.config._offload if moves else None
    if graph.config._zero is not None:
        zero = Zero(graph.config._zero, [optimizer for optimizer, _ in graph._optimizers], graph._name)
        zero.split_parameters()
    if offload is not None:
        offload.move(graph)
    if zero is not None:
        for optimizer in graph._stepping():
            optimizer.prepare()
        zero.split_states()
        if offload is not None:
            # What was split just now has other memory.
            offload.move(graph)
    return zero


def trace_program(
    graph: Graph,
    args: Any,
    kwargs: Any,
    tensors: list[Tensor],
    zero: Zero | None,
    finish: Callable[[Any, list[Tensor]], Any] | None = None,
    compile: Callable[..., Any] | None = None,
    expand: Sequence[str] = (),
    watch: Callable[[Any], contextlib.AbstractContextManager[None]] | None = None,
) -> Any:
    """Trace ``build`` and the steps of the optimizers, and compile; return the program and the seconds of both.

    ``zero`` is what ``slices`` returns.

    With ``finish`` nothing is compiled: calls are traced as global tensors run them, it is called with the trace
    and its results, and what it returns is returned. ``compile`` is called with the trace, its results, their structure
    and the options, in place of the compilation. Calls of the ops ``expand`` are traced as their compositions. And
    ``build``
    runs inside what ``watch`` returns for the trace.

    Everything outside of the program is restored afterwards: gradients, states, and the generator.
    """
    if _oneflow._is_tracing():
        raise RuntimeError("an nn.Graph is called inside the build of another one")
    for optimizer in graph._stepping():
        optimizer.prepare()
    states = {id(optimizer): States(optimizer) for optimizer in graph._stepping()}
    groups = [group["params"] for optimizer, _ in graph._optimizers for group in optimizer.param_groups]
    leaves: dict[int, Tensor] = {id(p): p for group in groups for p in group}
    leaves.update((id(p), p) for _, p in graph._parameters() if p.is_leaf)
    grads = [(p, p.grad) for p in leaves.values()]
    for p, grad in grads:
        if grad is not None:
            p.grad = None
    if graph._scaler is not None:
        graph._scaler._start(next(iter(leaves.values())).device if leaves else "cpu")
    modules = [m for top in graph._modules.values() for m in top.modules()]
    table = None
    if graph.config._schedule is not None:
        table = pipeline.table_of(graph.config._schedule, modules, graph.config._micro_batches, graph._name)
    start = time.perf_counter()
    locations = SourceLocations(paths_of(graph._modules), graph._stack_depth, graph._only_user)
    trace = _oneflow._GraphTrace(graph._name, locations)
    try:
        if finish is not None:
            trace.expand_as_global()
        if expand:
            trace.expand(list(expand))
        for name, tensor in graph._parameters():
            trace.name(tensor, name)
        seen = _brought(graph, trace, zero)
        for i, optimizer in enumerate(graph._stepping()):
            name_state(trace, f"optimizer_{i}", optimizer, dict(graph._parameters()))
        if finish is None and (pins := _pins(graph, tensors)):
            _oneflow._Layouts.begin_pins(pins)
        inputs = list(map(wanting, placeholders(trace, tensors), tensors))
        lookups = Lookups(trace)
        with lookups, _precision(graph, tensors), _scaled(graph):
            steps = functools.partial(_steps_in_build, graph, states)
            section = None if table is None else trace.section
            with Building(graph._all_modules().all, steps, graph, section) as building:
                try:
                    around = contextlib.nullcontext() if watch is None else watch(trace)
                    with around, seen.around_build(modules):
                        structure, outputs = _build(graph, trace, flatten((args, kwargs), [], "input"), inputs)
                except Exception as error:
                    locations.annotate(error, f"{graph._name} traced build")
                    raise
                outputs += building.settle(trace.has_met)
        _check_gradients(graph, groups)
        with lookups:
            for optimizer, _ in graph._optimizers:
                if zero is None:
                    traced_step(optimizer, graph._scaler)
                else:
                    zero.step(optimizer, functools.partial(traced_step, optimizer, graph._scaler))
        if graph._scaler is not None:
            graph._scaler.update()
        if finish is None:
            _oneflow._Layouts.end_pins(True)
        # One program creates such state, the next one updates it.
        n_places = len(building.kept.places)
        outputs += [made for state in states.values() for made in state.settle(building.kept)]
        once = len(building.kept.places) > n_places
        if finish is not None:
            if lookups.all:
                raise NotImplementedError(f"{graph._name}: layouts of graphs with lookups in stores are not searched")
            return finish(trace, outputs)
        traced = time.perf_counter()
        after = stages_after(graph._modules.values())
        turns = [] if table is None else pipeline.row_of(table, modules, graph._name)
        options = {"stages_after": after, "turns": turns, **graph.config._options()}
        if compile is None:
            compiled = lookups.finish(trace, outputs, inputs, **options)
        elif lookups.all:
            raise NotImplementedError(f"{graph._name}: a graph with lookups in stores has a program for each size")
        else:
            compiled = compile(trace, outputs, (structure, len(outputs), once), options)
    except BaseException:
        for state in states.values():
            state.restore()
        raise
    finally:
        _oneflow._Layouts.end_pins(False)
        trace.abort()
        if zero is not None:
            zero.forget()
        for p, grad in grads:
            p.grad = grad
    if compiled is None:
        return None, traced - start, 0.0
    memory = [t for _, t in graph._parameters()] + [t for g in groups for t in g]
    met = graph._has_met(building)
    program = Program(
        compiled, structure, building.kept, met, memory, graph._stepping(), once, lookups if lookups.all else None
    )
    return program, traced - start, time.perf_counter() - traced


def _brought(graph: Graph, trace: Any, zero: Zero | None) -> Seen:
    """What modules see of parameters that are kept in slices or on the host."""
    seen, offload = Seen(), graph.config._offload
    fetched = {} if offload is None else {id(p): p for p in offload.fetched(graph)}
    for p in fetched.values():
        trace.fetch(p)
        seen.add(p, Tensor.clone, True)
    if zero is not None:
        zero.bring(seen, lambda p: id(p) in fetched)
    return seen


def _pins(graph: Graph, tensors: list[Tensor]) -> list[Any]:
    """The layouts of calls that a plan has for inputs of these sizes."""
    sizes, pins = graph._pins or (None, [])
    return pins if sizes == [list(t.shape) for t in tensors] else []


def trace_at_sizes(graph: Graph, args: Any, kwargs: Any, tensors: list[Tensor], dims: Open) -> Any:
    """As :func:`trace_program`: one program for all sizes of the named dimensions.

    Raises:
        SizeError: the program does not follow from them; the error has the place in it.
    """
    if graph.config._zero is not None or graph.config._schedule is not None:
        raise NotImplementedError(f"{graph._name}: ZeRO and pipelines have a program for each size")
    options: dict[str, Any] = {}

    def trace(inputs: list[Tensor], expand: Sequence[str]) -> tuple[Any, Any]:
        found: list[Any] = []

        def end(trace: Any, outputs: list[Tensor], made: Any, given: dict[str, Any]) -> Any:
            found.extend((trace.finish_traced(outputs), made))
            options.update(given)
            return None

        trace_program(graph, args, kwargs, inputs, None, compile=end, expand=expand)
        return found[0], found[1]

    def compile(
        traced: list[Any], checks: list[Any], named: list[Any], points: list[list[int]], asked: list[Any]
    ) -> Any:
        # The example itself is traced last: what the program keeps alive and writes back is that trace's.
        def end(trace: Any, outputs: list[Tensor], made: Any, given: dict[str, Any]) -> Any:
            trace.abort()
            return _oneflow._compile_at_sizes(traced, checks, named, points, asked, **given)

        return trace_program(graph, args, kwargs, dims.resized(tensors, points[0]), None, compile=end)

    start = time.perf_counter()
    (program, *_), _, unseen = compiled_at_sizes(dims, trace, tensors, compile)
    program.fitting = Fitting(dims, program.compiled, unseen)
    return program, time.perf_counter() - start, 0.0


def _steps_in_build(graph: Graph, states: dict[int, States], optimizer: Any) -> None:
    """Make the state of an optimizer that build itself steps an input of the program."""
    if any(optimizer is known for known, _ in graph._optimizers):
        raise RuntimeError(
            f"{graph._name}: build calls {type(optimizer).__name__}.step(), and add_optimizer() lets every call end "
            "with one: leave one of them out"
        )
    if id(optimizer) not in graph._steppers:
        with untraced():
            optimizer.prepare()
        graph._steppers[id(optimizer)] = optimizer
        states[id(optimizer)] = States(optimizer)


def _check_gradients(graph: Graph, groups: list[list[Tensor]]) -> None:
    if any(groups) and all(p.grad is None for group in groups for p in group):
        raise RuntimeError(
            f"{graph._name}: no parameter of its optimizers got a gradient in build: call backward() on a loss "
            "there, and give add_optimizer() an optimizer of the parameters that the loss depends on"
        )


def _precision(graph: Graph, tensors: list[Tensor]) -> Any:
    if graph.config._amp is None:
        return contextlib.nullcontext()
    owners = [*tensors, *[t for _, t in graph._parameters()]]
    kind = owners[0].device.type if owners else "cpu"
    return oneflow.autocast(kind, dtype=graph.config._amp)


@contextlib.contextmanager
def _scaled(graph: Graph) -> Iterator[None]:
    """Inside, backward passes of this thread start from losses multiplied by the scaler's scale and, so that gradients
    of micro-batches are averaged, divided by their number."""
    n, scaler = graph.config._micro_batches, graph._scaler

    def start(loss: Tensor) -> Tensor:
        loss = loss if n == 1 else loss / n
        return loss if scaler is None else scaler.scale(loss)

    before = _oneflow._C._set_loss_scale(None if n == 1 and scaler is None else start)
    try:
        yield
    finally:
        _oneflow._C._set_loss_scale(before)


def _build(graph: Graph, trace: Any, structure: Any, inputs: list[Tensor]) -> tuple[Any, list[Tensor]]:
    """Run ``build`` on the traced inputs; return the structure of its results and the tensors in them."""
    n = graph.config._micro_batches
    cut = MicroBatches(inputs, n)
    parts: list[list[Tensor]] = []
    result: Any = None
    for i in range(n):
        trace.micro_batch()
        args, kwargs = unflatten(structure, iter([cut.part(t, i) for t in inputs]))
        outputs: list[Tensor] = []
        before = gradients_follow.set(i + 1 < n)
        try:
            result = flatten(graph.build(*args, **kwargs), outputs, "output")
        finally:
            gradients_follow.reset(before)
        parts.append(outputs)
    trace.micro_batch(True)
    if n == 1:
        return result, parts[0]
    return result, [cut.together(p) for p in map(list, zip(*parts, strict=True))]
