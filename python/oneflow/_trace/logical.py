"""The logical graph of a module's forward pass, at one size or with named dimensions."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._trace import size_guards
from oneflow._trace.named_sizes import Named, Size, SizeError, Solver, merged, points
from oneflow._trace.size_guards import Decided, Decision, Guard
from oneflow._trace.source_locations import SourceLocations, paths_of
from oneflow.nn.modules.module import Module


@dataclass
class Value:
    dtype: Any
    sizes: list[Any]
    strides: list[Any]
    offset: Any
    root: int

    @property
    def rank(self) -> int:
        return len(self.sizes)


@dataclass
class Node:
    op: str
    inputs: dict[str, Any]
    args: dict[str, Any]
    outputs: list[int]
    place: str | None
    updates: list[Any]


@dataclass
class Logical:
    """Values, the nodes that make them in program order, and the tensors that outlive a call by the value they are."""

    values: list[Value]
    nodes: list[Node]
    variables: list[tuple[int, str, Tensor]]
    inputs: list[int]
    outputs: list[int]
    # Variables and inputs that the program writes, and the values that they have after it.
    writes: list[tuple[int, int]]
    structure: Any
    # Variables whose elements, integers, follow from named dimensions: the elements in row-major order.
    computed: dict[int, list[Any]] = field(default_factory=dict)
    # In each trace: sizes and strides of the values, and what Python asked of sizes.
    numbers: list[list[int]] = field(default_factory=list)
    decisions: list[list[Decision]] = field(default_factory=list)
    # What named dimensions must meet therefore, and the lines where sizes left its sight.
    guards: list[Guard] = field(default_factory=list)
    # What makes numbers of the program whole, where it was traced in steps.
    multiples: list[Guard] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    # Traces at other sizes.
    at_sizes: Callable[[dict[str, int]], dict[str, Any]] | None = None

    def is_other_at(self, sizes: dict[str, int]) -> bool:
        """Return whether Python runs at other sizes, and writes another program there."""
        assert self.at_sizes is not None
        try:
            part = self.at_sizes(sizes)
        except SizeError:
            return False
        return _complaint(self, part, sizes) is not None


_local = threading.local()


def is_exporting() -> bool:
    """Return whether this thread traces a model that leaves Python: by ``export``, ``jit.trace`` or ``onnx.export``."""
    return getattr(_local, "is_exporting", False)


def trace(
    model: Callable[..., Any],
    run: Callable[[list[Tensor]], tuple[list[Tensor], Any]],
    tensors: list[Tensor],
    names: dict[str, Tensor],
    expand: Sequence[str] = (),
) -> dict[str, Any]:
    """The logical graph as data (see the compiled half).

    Args:
        model: the module or function that is traced; the buffers and attributes that its modules replace meanwhile, and
            what they add to dictionaries, are put back: each trace starts from the same state.
        run: calls it on tensors that stand for the inputs; returns tensors, and how the result is made of them, which
            is passed on as ``structure``.
        tensors: the inputs, of which the meta is read.
        names: the names of tensors that outlive the call.
        expand: ops that are traced as their compositions.
    """
    if _oneflow._is_tracing():
        raise RuntimeError("a model is exported while a graph is traced")
    modules = {"": model} if isinstance(model, Module) else {}
    graph = _oneflow._GraphTrace("main_graph", SourceLocations(paths_of(modules), 1, True))
    parts = list(model.modules()) if isinstance(model, Module) else []
    state = _State(parts)
    _local.is_exporting = True
    try:
        graph.expand(list(expand))
        graph.capture_constants()
        for name, tensor in names.items():
            graph.name(tensor, name)
        with oneflow.no_grad(), size_guards.recorded(SourceLocations(paths_of(modules))) as decisions:
            outputs, structure = run([graph.input(t) for t in tensors])
        made = graph.finish_logical(outputs)
    finally:
        _local.is_exporting = False
        graph.abort()
        state.put_back()
    made["structure"], made["decisions"] = structure, decisions
    return made


class _State:
    """What modules hold before a trace: buffers, public attributes (flags, caches), and dictionaries among these."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self._dicts = [(m._buffers, dict(m._buffers)) for m in modules]
        self._attributes = [(vars(m), {k: v for k, v in vars(m).items() if not k.startswith("_")}) for m in modules]
        self._dicts += [(v, dict(v)) for _, held in self._attributes for v in held.values() if type(v) is dict]

    def put_back(self) -> None:
        for held, before in self._dicts:
            held.clear()
            held.update(before)
        for attributes, before in self._attributes:
            for name in [k for k in attributes if not k.startswith("_") and k not in before]:
                del attributes[name]
            attributes.update(before)


def logical_of(parts: list[dict[str, Any]], solver: Solver) -> Logical:
    """One graph of traces at several sizes: the integers in which they differ are solved.

    Of what no result depends on (numbers that the program read while it was traced) the first trace is kept.
    """
    first = parts[0]
    for part in parts[1:]:
        _compare(first["nodes"], part["nodes"])
    needed = _needed(first)
    values = []
    for i, column in enumerate(zip(*(p["values"] for p in parts), strict=True)):
        where = f"value {i}, of {column[0][0]} {column[0][1]}"
        dtype, sizes, strides, offset, root = column[0]
        try:
            if i in needed and any(c[1] != sizes for c in column):
                sizes = merged([c[1] for c in column], solver, where)
        except SizeError as error:
            maker = next((n for n in first["nodes"] if i in n[3]), None)
            raise SizeError(f"{error} ({_place(maker)})" if maker else str(error)) from None
        values.append(Value(getattr(oneflow, dtype), list(sizes), list(strides), offset, root))
    nodes = []
    for column in zip(*(p["nodes"] for p in parts), strict=True):
        op, inputs, args, outputs, place, updates = column[0]
        if needed.intersection(outputs) and any(c[2] != args for c in column):
            args = merged([c[2] for c in column], solver, f"an argument of {op}() ({_place(column[0])})")
        nodes.append(Node(op, inputs, args, outputs, place, updates))
    computed = {}
    for (value, name, tensor), *others in zip(*(p["variables"] for p in parts), strict=True):
        if value in needed and any(not _same(other, tensor) for _, _, other in others):
            reader = next((n for n in first["nodes"] if value in n[1].values()), None)
            where = f"the constant {name!r} that {_place(reader) if reader else 'the result'} reads"
            computed[value] = _elements([tensor, *(other for _, _, other in others)], solver, where)
    structure = first["structure"]
    if any(p["structure"] != structure for p in parts):
        structure = merged([p["structure"] for p in parts], solver, "the result")
    variables, inputs, outputs, writes = (first[name] for name in ("variables", "inputs", "outputs", "writes"))
    return Logical(values, nodes, variables, inputs, outputs, writes, structure, computed)


def _needed(part: dict[str, Any]) -> set[int]:
    """The values that results, and what is written, depend on."""
    needed = {*part["inputs"], *part["outputs"], *(value for write in part["writes"] for value in write)}
    for _, inputs, _, outputs, _, updates in reversed(part["nodes"]):
        if updates or needed.intersection(outputs):
            needed.update(outputs)
            for given in inputs.values():
                needed.update(v for v in (given if isinstance(given, list) else [given]) if v is not None)
    # A view is a layout of its root.
    return needed | {part["values"][v][4] for v in needed}


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether a tensor that outlives the call is the same in two traces."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return one.data_ptr() == other.data_ptr() or oneflow.equal(one, other)


# Larger constants that differ between traces are refused, not solved.
_MOST_ELEMENTS = 64


def _elements(tensors: list[Tensor], solver: Solver, where: str) -> list[Any]:
    """The elements of a tensor that was made of sizes, as ``torch.tensor(x.shape[1])`` is."""
    first = tensors[0]
    whole = not (first.dtype.is_floating_point or first.dtype.is_complex or first.dtype == oneflow.bool)
    if not whole or any(t.shape != first.shape for t in tensors) or first.numel() > _MOST_ELEMENTS:
        raise SizeError(f"{where} depends on a named dimension")
    made: list[Any] = merged([t.flatten().tolist() for t in tensors], solver, where)
    return made


def _place(node: Any) -> str:
    return node[4] or f"{node[0]}()"


def _compare(one: list[Any], other: list[Any]) -> None:
    for a, b in zip(one, other, strict=False):
        if a[0] != b[0] or a[1] != b[1] or a[3] != b[3]:
            raise SizeError(
                f"the program depends on a named dimension: it runs {a[0]}() at {_place(a)}, and "
                f"{b[0]}() at {_place(b)} for another size"
            )
    if len(one) != len(other):
        longer = one if len(one) > len(other) else other
        raise SizeError(
            "the program depends on a named dimension: for one size it goes on with "
            f"{_place(longer[min(len(one), len(other))])}"
        )


_STEPS = (1, 2, 4, 8, 16, 32, 64)
Run = Callable[[list[Tensor]], dict[str, Any]]
Axes = Mapping[tuple[int, int], Named]


def trace_at_sizes(
    run: Run,
    tensors: list[Tensor],
    dims: Axes,
    tries: Sequence[int] = _STEPS,
    ranges: Mapping[str, tuple[int, int | None]] | None = None,
) -> tuple[Logical, list[dict[str, int]]]:
    """Trace with named dimensions: ``dims`` names the axes (number of the input, axis) that stay open.

    ``tries`` are the steps by which sizes are made larger, of which the first is taken that the program allows.
    ``ranges`` are the smallest and largest sizes by name.

    Returns the graph, and the sizes that it was traced at.

    Raises:
        Decided: Python decides by a size, and no other sizes are decided so.
        SizeError: the program does not follow from the named dimensions; the error has the place in the program.
    """
    base: dict[str, int] = {}
    for (i, axis), named in dims.items():
        size = tensors[i].shape[axis]
        name = named
        if isinstance(named, Size):
            name, size = named.root(), named.solved(size)
        if base.setdefault(str(name), size) != size:
            raise SizeError(f"the dimension {name!r} is {base[str(name)]} in one input and {size} in another")
    if not base:
        return logical_of([run(tensors)], Solver([{}])), [{}]
    traced: dict[tuple[int, ...], dict[str, Any]] = {tuple(base.values()): run(tensors)}

    def at_sizes(sizes: dict[str, int]) -> dict[str, Any]:
        key = tuple(sizes.values())
        if key not in traced:
            traced[key] = _run_at(run, tensors, dims, sizes)
        return traced[key]

    error: Exception | None = None
    for step in tries:
        try:
            return _with_steps(at_sizes, base, step, ranges or {})
        except Decided:
            raise
        except SizeError as failed:
            # A size may have to be a multiple of something: the first failure says the most.
            error = error or failed
    assert error is not None
    raise error


def _with_steps(
    at_sizes: Callable[[dict[str, int]], dict[str, Any]],
    base: dict[str, int],
    step: int,
    ranges: Mapping[str, tuple[int, int | None]],
) -> tuple[Logical, list[dict[str, int]]]:
    """One graph from traces at the example and at sizes that lie so far apart."""
    at = points(
        {name: [n, n + step, n + (2 + i) * step, n + (3 + i) * step] for i, (name, n) in enumerate(base.items())}
    )
    # Sizes of 1 are often decided by: what the other sizes have in common counts.
    wanted = at_sizes(at[-1] if 1 in base.values() else base)["decisions"]
    parts, error = [], None
    try:
        parts = [at_sizes(sizes) for sizes in at]
    except SizeError as failed:
        error = failed
    if error is not None or not all(size_guards.agree(p["decisions"], wanted) for p in parts):
        at = points(_agreeing(at_sizes, base, step, wanted, ranges, error))
        parts = [at_sizes(sizes) for sizes in at]
        for part in parts:
            if not size_guards.agree(part["decisions"], wanted):
                raise Decided(size_guards.difference(wanted, part["decisions"]))
    graph = logical_of(parts, Solver(at))
    decisions = graph.decisions = [part["decisions"] for part in parts]
    graph.numbers = [[n for value in part["values"] for n in (*value[1], *value[2])] for part in parts]
    graph.guards = size_guards.guards_of(decisions, at, ranges, graph.numbers)
    graph.unseen = size_guards.unseen(decisions)
    broken = [guard for guard in graph.guards if not guard.holds(base)]
    if broken:
        # The example is decided otherwise. That does not matter if its program is the same.
        if _complaint(graph, at_sizes(base), base) is not None:
            raise Decided(f"the example is decided otherwise than other sizes: {broken[0]}")
        graph.guards = [guard for guard in graph.guards if guard not in broken]
    taken = {size for value in graph.values for size in value.sizes if isinstance(size, int)}
    for sizes in _probes(base, step, ranges, taken):
        if not all(guard.holds(sizes) for guard in graph.guards):
            continue
        try:
            part = at_sizes(sizes)
        except SizeError:
            # It does not run there.
            continue
        place = _complaint(graph, part, sizes) if size_guards.agree(part["decisions"], wanted) else None
        if place is not None:
            shown = ", ".join(f"{name}={n}" for name, n in sizes.items())
            raise Decided(f"the program depends on a named dimension: with {shown} it is another one at {place}")
    graph.multiples, graph.at_sizes = list(_multiples(graph)), at_sizes
    return graph, at


def _multiples(graph: Logical) -> Iterator[Guard]:
    """A guard for each argument of a node that is whole at some sizes alone."""
    seen: set[Size] = set()
    for node in graph.nodes:
        for size in _sizes_in(node.args):
            by = size.denominator()
            if by > 1 and size not in seen:
                seen.add(size)
                whole = Size({term: factor * by for term, factor in size.terms.items()})
                yield Guard("mod", whole, by, 0, node.place or f"{node.op}()")


def _sizes_in(item: Any) -> Iterator[Size]:
    if isinstance(item, Size):
        yield item
    elif isinstance(item, (list, tuple, dict)):
        for part in item.values() if isinstance(item, dict) else item:
            yield from _sizes_in(part)


# Sizes at which a program that Python decides on unseen would be another one.
_PROBED = (3, 33, 513)


def _probes(
    base: dict[str, int], step: int, ranges: Mapping[str, tuple[int, int | None]], taken: set[int]
) -> Iterator[dict[str, int]]:
    """Sizes far from those that were traced, one dimension at a time, which no other dimension has (``taken``)."""
    for name, n in base.items():
        low, high = ranges.get(name, (0, None))
        for size in _PROBED:
            size = n + (size - n) // step * step
            while size in taken:
                size += step
            if max(2, low) <= size and (high is None or size <= high) and size != n:
                yield {**{k: max(2, m) if m == 1 else m for k, m in base.items()}, name: size}


def _agreeing(
    at_sizes: Callable[[dict[str, int]], dict[str, Any]],
    base: dict[str, int],
    step: int,
    wanted: list[Decision],
    ranges: Mapping[str, tuple[int, int | None]],
    error: SizeError | None,
) -> dict[str, list[int]]:
    """Sizes of each dimension at which Python decides as it did once, the others being as in the example.

    ``error``: why other sizes do not run.

    Raises:
        Decided: there are too few.
        SizeError: Python decides by no size.
    """
    if error is not None and not wanted:
        raise error
    columns: dict[str, list[int]] = {}
    start = {name: max(2, n) for name, n in base.items()}
    modulus = size_guards.modulus(wanted)
    other: list[Decision] | None = None
    for name, n in start.items():
        low, high = ranges.get(name, (0, None))
        found = columns[name] = []
        for size in size_guards.candidates(n, (0, 1, 2, 3), step, modulus, max(2, low), high):
            try:
                decided = at_sizes({**start, name: size})["decisions"]
            except SizeError:
                continue
            if size_guards.agree(decided, wanted):
                found.append(size)
            else:
                other = decided
            if len(found) == 4:
                break
        if len(found) < 3:
            raise error or Decided(size_guards.difference(wanted, other or []))
    return columns


def _complaint(graph: Logical, part: dict[str, Any], sizes: dict[str, int]) -> str | None:
    """Where a trace is not what the graph says at these sizes, in words; None where it is.

    What no result depends on is not compared.
    """
    needed = _needed(part)
    for node, other in itertools.zip_longest(graph.nodes, part["nodes"]):
        if node is None or other is None or (node.op, node.inputs, node.outputs) != (other[0], other[1], other[3]):
            return (node and node.place) or _place(other or (node.op, *[None] * 5))
        if needed.intersection(node.outputs) and _at(node.args, sizes) != _at(other[2], sizes):
            return _place(other)
    for i, (value, (_, found, *_)) in enumerate(zip(graph.values, part["values"], strict=False)):
        if i in needed and _at(value.sizes, sizes) != list(found):
            return f"value {i}"
    return None


def _at(item: Any, sizes: dict[str, int]) -> Any:
    """A value of arguments with its sizes as numbers, tuples as lists."""
    if isinstance(item, Size):
        found = item.at(sizes)
        return int(found) if found.denominator == 1 else found
    if isinstance(item, (list, tuple)):
        return [_at(part, sizes) for part in item]
    return {k: _at(v, sizes) for k, v in item.items()} if isinstance(item, dict) else item


def _run_at(
    run: Callable[[list[Tensor]], dict[str, Any]],
    tensors: list[Tensor],
    dims: Mapping[tuple[int, int], Named],
    sizes: dict[str, int],
) -> dict[str, Any]:
    """The trace at other sizes than those of the example."""
    try:
        return run([_resized(t, i, dims, sizes) for i, t in enumerate(tensors)])
    except (RuntimeError, ValueError, IndexError, AssertionError) as error:
        shown = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise SizeError(f"the program does not run with {shown}: {error}") from error


def _resized(tensor: Tensor, i: int, dims: Mapping[tuple[int, int], Named], sizes: dict[str, int]) -> Tensor:
    """A tensor of other sizes: only its meta is read by a trace."""
    shape = list(tensor.shape)
    for axis in range(len(shape)):
        name = dims.get((i, axis))
        if name is not None:
            shape[axis] = int(name.at(sizes)) if isinstance(name, Size) else sizes[name]
    if shape == list(tensor.shape):
        return tensor
    return oneflow.zeros((), dtype=tensor.dtype, device=tensor.device).expand(shape)
