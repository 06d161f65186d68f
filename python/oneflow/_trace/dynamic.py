"""Programs for many sizes: the sizes that a step is traced at, and the compilation of those traces as one program.

Nothing is symbolic. A step is traced at several sizes of its named dimensions, which only the metas of the inputs say;
the compiled half solves the numbers in which the programs differ. What cannot be solved is refused by its place. What
Python asks of sizes meanwhile (``size_guards``) has to have the same answers in all of these traces, and becomes the
program's guards.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._trace import size_guards
from oneflow._trace.named_sizes import Size, SizeError
from oneflow._trace.open_dims import OpenDims, open_dims
from oneflow._trace.size_guards import Decided, Decision
from oneflow._trace.source_locations import SourceLocations

# Steps between the sizes of a dimension: a program may need multiples of something.
_STEPS = (1, 2, 4, 8, 32)
# What is added to the example's size, times the step; a row for each dimension, so that two do not meet by chance.
_GROWN = ((1, 2, 5, 11), (3, 6, 10, 17), (4, 7, 13, 19), (8, 9, 14, 23))
# Sizes at which a trace is compared, besides those that are compiled: none of them may be another program.
_PROBES = (3, 32, 512, 4096)
_LARGEST = (1 << 63) - 1

# How often ops are traced as their compositions so that a program of one row can be compared.
_EXPANSIONS = 4

Check = tuple[list[int], Any]
# Traces a step on such inputs, with these ops as their compositions; returns what ends a trace, and how its results are
# made of tensors, which has to be the same at all sizes.
Trace = Callable[[list[Tensor], Sequence[str]], tuple[Any, Any]]


class Traced(NamedTuple):
    """One trace: what the compiled half has of it, how its results are made, and what Python asked of sizes."""

    part: Any
    structure: Any
    decisions: list[Decision]


class Open:
    """The named dimensions of a call.

    Args:
        found: where they are, and their ranges.
        tensors: the inputs of the example.

    Raises:
        SizeError: two inputs disagree about a size.
        ValueError: a dimension is zero in the example.
    """

    def __init__(self, found: OpenDims, tensors: Sequence[Tensor]) -> None:
        self.axes = found.named
        self.example: dict[str, int] = {}
        reads: dict[str, tuple[int, int, int, int]] = {}
        for (i, axis), named in self.axes.items():
            size = tensors[i].shape[axis]
            name, factor, constant = named, 1, 0
            if isinstance(named, Size):
                name, size = named.root(), named.solved(size)
                factor, constant = int(named.terms[(name,)]), int(named.terms.get((), 0))
            if self.example.setdefault(str(name), size) != size:
                raise SizeError(
                    f"the dimension {name!r} is {self.example[str(name)]} in one input and {size} in another"
                )
            known = reads.get(str(name))
            if known is None or (known[2:] != (1, 0) and (factor, constant) == (1, 0)):
                reads[str(name)] = (i, axis, factor, constant)
        for name, size in self.example.items():
            if size < 1:
                raise ValueError(f"the dimension {name!r} is {size} in the example, and has to be at least 1")
        self.names = list(self.example)
        # Programs of the same dimensions under other guards are told apart by it.
        self.variant = 0
        # Sizes that have a program each, because Python decides by them.
        self.alone: set[tuple[int, ...]] = set()
        self._found = found
        self.reads = [reads[name] for name in self.names]
        ranges = [found.ranges.get(name, (0, None)) for name in self.names]
        # Sizes of zero have programs of their own.
        self.ranges = [(max(1, low), _LARGEST if high is None else high) for low, high in ranges]
        self.asked = list(self.ranges)
        self.by_input: dict[int, set[int]] = {}
        for i, axis in self.axes:
            self.by_input.setdefault(i, set()).add(axis)
        # For each input its rank, and what reads the sizes that are fixed.
        self._fixed: list[tuple[int, Any]] = []
        for i, t in enumerate(tensors):
            fixed = [axis for axis in range(t.dim()) if axis not in self.by_input.get(i, ())]
            self._fixed.append((t.dim(), operator.itemgetter(*fixed) if fixed else len))
        # Axes of open sizes as they are.
        self._plain = [(i, axis) for i, axis, factor, constant in self.reads if (factor, constant) == (1, 0)]

    def dims(self, steps: Sequence[int]) -> list[Any]:
        """The dimensions as the compiled half takes them."""
        rows = zip(self.names, self.ranges, self.reads, steps, strict=True)
        return [(name, low, high, step, self.example[name], read) for name, (low, high), read, step in rows]

    def key(self, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
        """The metas of inputs, without open sizes."""
        found = []
        for t, (rank, fixed) in zip(tensors, self._fixed, strict=False):
            shape = t.shape
            sizes = fixed(shape) if len(shape) == rank else shape
            found.append((rank, sizes, t.dtype, t.device, t.requires_grad))
        return (self.variant, *found)

    def again(self, tensors: Sequence[Tensor], variant: int) -> Open | None:
        """The same dimensions around the sizes of these inputs; None where such sizes have a program each."""
        sizes = self.sizes(tensors)
        if sizes is None or min(sizes) < 2 or tuple(sizes) in self.alone or not self.agree(tensors, sizes):
            return None
        made = Open(self._found, tensors)
        made.variant = variant
        return made

    def are_large(self, tensors: Sequence[Tensor]) -> bool:
        """Return whether all open sizes are read as they are and above 1, which programs for many sizes always take."""
        if len(self._plain) < len(self.reads):
            return False
        for i, axis in self._plain:
            if tensors[i].shape[axis] < 2:
                return False
        return True

    def sizes(self, tensors: Sequence[Tensor]) -> list[int] | None:
        """The sizes that inputs have; None where an axis has no such size."""
        found = []
        for i, axis, factor, constant in self.reads:
            size, rest = divmod(tensors[i].shape[axis] - constant, factor)
            if rest:
                return None
            found.append(size)
        return found

    def agree(self, tensors: Sequence[Tensor], sizes: Sequence[int]) -> bool:
        """Return whether all axes of a dimension have its size."""
        at = dict(zip(self.names, sizes, strict=True))
        for (i, axis), named in self.axes.items():
            if tensors[i].shape[axis] != (named.at(at) if isinstance(named, Size) else at[named]):
                return False
        return True

    def resized(self, tensors: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """Stand-ins for inputs of other sizes: a trace reads their metas alone."""
        at = dict(zip(self.names, sizes, strict=True))
        made = []
        for i, t in enumerate(tensors):
            axes = self.by_input.get(i, ())
            shape = list(t.shape)
            for axis in axes:
                named = self.axes[i, axis]
                shape[axis] = int(named.at(at)) if isinstance(named, Size) else at[named]
            if shape != list(t.shape):
                like = oneflow.zeros((), dtype=t.dtype, device=t.device).expand(shape)
                t = like.requires_grad_() if t.requires_grad else like
            made.append(t)
        return made

    def shown(self, sizes: Sequence[int]) -> str:
        return ", ".join(f"{name}={size}" for name, size in zip(self.names, sizes, strict=True))

    def points(self, steps: Sequence[int], columns: Sequence[list[int]] | None = None) -> list[list[int]]:
        """The sizes to trace at: a base, each set of one or two dimensions grown, and two points that confirm.

        ``columns``: at least three sizes of each dimension to take them from.

        Raises:
            SizeError: a range holds too few sizes.
        """
        columns = columns or [self._column(k, step) for k, step in enumerate(steps)]
        base = [column[0] for column in columns]
        made = [base]
        for k in range(len(columns)):
            made.append([c[1] if i == k else n for i, (n, c) in enumerate(zip(base, columns, strict=True))])
        for a in range(len(columns)):
            for b in range(a + 1, len(columns)):
                made.append([c[1] if i in (a, b) else n for i, (n, c) in enumerate(zip(base, columns, strict=True))])
        made.append([column[2] for column in columns])
        made.append([column[-1] for column in columns])
        return made

    def candidates(self, k: int, step: int, modulus: int = 1) -> list[int]:
        """Sizes of a dimension around the example's that a program could be traced at; later ones go by the modulus."""
        low, high = self.ranges[k]
        size = self.example[self.names[k]]
        return size_guards.candidates(size, _GROWN[k % len(_GROWN)], step, modulus, max(2, low), high)

    def _column(self, k: int, step: int) -> list[int]:
        low, high = self.ranges[k]
        fit = self.candidates(k, step)[:4]
        if len(fit) < 3:
            raise SizeError(
                f"the dimension {self.names[k]!r} has to have three sizes above 1 that differ by multiples of {step}, "
                f"between {low} and {high}, for its program to be confirmed"
            )
        return fit

    def edges(self, steps: Sequence[int], base: Sequence[int]) -> Iterator[tuple[list[int], int]]:
        """Sizes at which one dimension is 1, and that dimension; the others are as in ``base``."""
        for k, (low, _) in enumerate(self.ranges):
            if low <= 1 and (1 - self.example[self.names[k]]) % steps[k] == 0:
                yield [1 if i == k else n for i, n in enumerate(base)], k

    def probes(self, steps: Sequence[int], base: Sequence[int]) -> Iterator[list[int]]:
        """Sizes, one dimension at a time, at which a program that asks about sizes would be another one."""
        for k, (low, high) in enumerate(self.ranges):
            start = self.example[self.names[k]]
            least = max(2, low)
            for size in dict.fromkeys((least, *_PROBES, high)):
                # The next size that is a multiple, or the last one.
                size = start - (start - size) // steps[k] * steps[k]
                size -= steps[k] * (size > high)
                if least <= size <= high and size < _LARGEST // 2:
                    yield [size if i == k else n for i, n in enumerate(base)]

    def complaint(self, sizes: Sequence[int]) -> str | None:
        """Which size lies outside of the range that was asked for, in words."""
        for name, size, (low, high) in zip(self.names, sizes, self.asked, strict=True):
            if size > high or (size < low and low > 1):
                most = "" if high == _LARGEST else f" and at most {high}"
                return f"{name} is {size}, it has to be at least {low}{most}"
        return None


def compiled_at_sizes(
    dims: Open,
    trace: Trace,
    tensors: Sequence[Tensor],
    compile: Callable[..., Any],
) -> tuple[Any, Any, Unseen | None]:
    """One program of the traces of a step at several sizes.

    Args:
        dims: the named dimensions.
        trace: traces the step.
        tensors: the inputs of the example.
        compile: called with the traces, the traces that must follow, the dimensions, the sizes of the traces, and what
            Python asked of sizes in each.

    Returns:
        what ``compile`` returns, the structure of the results, and what checks sizes that Python used unseen.

    Raises:
        Decided: Python decides by a size, and no other sizes are decided so.
        SizeError: the program does not follow from its named dimensions; the error has the place in the program.
    """
    first: SizeError | None = None
    for step in _STEPS:
        steps = [step] * len(dims.names)
        try:
            found = _attempt(dims, trace, tensors, compile, steps)
        except Decided:
            raise
        except SizeError as error:
            # The first failure says the most: later ones are about sizes that no one has asked for.
            first = first or error
            continue
        # Not every dimension needs the steps that one of them does.
        for k in range(len(steps)) if step > 1 and len(steps) > 1 else ():
            fewer = [1 if i == k else n for i, n in enumerate(steps)]
            with contextlib.suppress(SizeError):
                found, steps = _attempt(dims, trace, tensors, compile, fewer), fewer
        return found
    assert first is not None
    raise first


class Unseen:
    """Checks of a program in whose traces sizes left Python's sight: each new size is traced once, and compared.

    Args:
        places: the lines at which they did.
        dims, trace, traces, points, steps: of the program.
    """

    def __init__(
        self,
        places: list[str],
        dims: Open,
        trace: Trace,
        traces: list[Traced],
        points: list[list[int]],
        named: list[Any],
    ) -> None:
        self.places = places
        self._of = (dims, trace, traces, points, named)

    def follows(self, tensors: Sequence[Tensor], sizes: list[int]) -> bool:
        """Return whether a trace at these sizes is what the program says."""
        dims, trace, traces, points, named = self._of
        if sizes in points:
            return True
        try:
            made = _at(dims, trace, tensors, sizes)
        except SizeError:
            return False
        if made.structure != traces[0].structure or not _agree(made, traces[0]):
            return False
        return not _oneflow._unfollowed([t.part for t in traces], [(sizes, made.part)], named, points)


# Sizes whose checks are remembered.
_MOST_KNOWN = 1 << 14


class Fitting:
    """Which sizes a program for many sizes is for, by its guards and by checks of sizes that Python used unseen.

    Args:
        dims: the named dimensions.
        compiled: the program.
        unseen: what checks new sizes, where that has to be.
    """

    def __init__(self, dims: Open, compiled: Any, unseen: Unseen | None) -> None:
        self.dims, self.unseen = dims, unseen
        self.least = [low for _, low, _ in compiled.dims()]
        self._broken = compiled.broken
        self.is_restricted = compiled.is_restricted() or unseen is not None
        self._known: dict[tuple[int, ...], bool] = {}

    def allows(self, tensors: Sequence[Tensor], sizes: list[int]) -> bool:
        """Return whether sizes, which are in the ranges, keep all guards."""
        if not self.is_restricted:
            return True
        key = tuple(sizes)
        known = self._known.get(key)
        if known is None:
            known = self._broken(sizes) is None and (self.unseen is None or self.unseen.follows(tensors, sizes))
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = known
        return known


def _attempt(
    dims: Open,
    trace: Trace,
    tensors: Sequence[Tensor],
    compile: Callable[..., Any],
    steps: Sequence[int],
) -> tuple[Any, Any, Unseen | None]:
    """One program from traces at sizes that lie so far apart."""
    before, dims.ranges = dims.ranges, list(dims.asked)
    try:
        points = dims.points(steps)
        example = [dims.example[name] for name in dims.names]
        whole = None if 1 in example else _at(dims, trace, tensors, example)
        known = {} if whole is None else {tuple(example): whole}
        made = [known.get(tuple(sizes)) or _tried(dims, trace, tensors, sizes) for sizes in points]
        found = whole or made[0]
        if isinstance(found, SizeError):
            raise found
        wanted: Traced = found
        traced = [t for t in made if isinstance(t, Traced) and _agree(t, wanted)]
        if len(traced) < len(made):
            points = dims.points(steps, _agreeing(dims, trace, tensors, steps, wanted, made))
            traced = [_at(dims, trace, tensors, sizes) for sizes in points]
            for t in traced:
                if not _agree(t, wanted):
                    raise Decided(size_guards.difference(wanted.decisions, t.decisions))
        structure = wanted.structure
        if any(t.structure != structure for t in traced):
            raise SizeError("the structure of the results depends on a named dimension")
        parts = [t.part for t in traced]
        # Loops over a dimension are refused here, before they are unrolled for large sizes.
        _oneflow._unfollowed(parts, [], dims.dims(steps), points)
        checks: list[Check] = []
        if whole is not None and example not in points:
            checks.append((example, whole.part))
        for sizes in dims.probes(steps, points[0]):
            # It may not run at that size at all: runs are refused there too.
            with contextlib.suppress(SizeError):
                if sizes not in points:
                    probe = _at(dims, trace, tensors, sizes)
                    # Where Python decides otherwise a guard says so.
                    if _agree(probe, wanted):
                        checks.append((sizes, probe.part))
        for k in _other_edges(dims, trace, tensors, steps, points, traced):
            dims.ranges[k] = (2, dims.ranges[k][1])
        named = dims.dims(steps)
        asked = [t.decisions for t in traced]
        places = size_guards.unseen(asked)
        unseen = Unseen(places, dims, trace, traced, points, named) if places else None
        return compile(parts, checks, named, points, size_guards.asked(asked)), structure, unseen
    except ValueError as error:
        dims.ranges = before
        raise error if isinstance(error, SizeError) else SizeError(str(error)) from error


def _tried(dims: Open, trace: Trace, tensors: Sequence[Tensor], sizes: Sequence[int]) -> Traced | SizeError:
    """A trace, or why there is none at these sizes."""
    try:
        return _at(dims, trace, tensors, sizes)
    except SizeError as error:
        return error


def _agree(one: Traced, other: Traced) -> bool:
    """Whether Python asked the same questions of sizes in two traces, and got the same answers."""
    return size_guards.agree(one.decisions, other.decisions)


def _agreeing(
    dims: Open,
    trace: Trace,
    tensors: Sequence[Tensor],
    steps: Sequence[int],
    wanted: Traced,
    made: list[Traced | SizeError],
) -> list[list[int]]:
    """Sizes of each dimension at which Python decides as in one trace, the others being as in the example.

    ``made``: other traces, of which some are decided otherwise or do not run.

    Raises:
        Decided: there are too few.
        SizeError: Python decides by no size, and some of the traces do not run.
    """
    error = next((t for t in made if isinstance(t, SizeError)), None)
    if error is not None and not wanted.decisions:
        raise error
    base = [max(2, dims.example[name]) for name in dims.names]
    columns = []
    for k, step in enumerate(steps):
        found: list[int] = []
        for size in dims.candidates(k, step, size_guards.modulus(wanted.decisions)):
            with contextlib.suppress(SizeError):
                if _agree(_at(dims, trace, tensors, [size if i == k else n for i, n in enumerate(base)]), wanted):
                    found.append(size)
            if len(found) == 4:
                break
        if len(found) < 3:
            other = next((t for t in made if isinstance(t, Traced) and not _agree(t, wanted)), None)
            if other is not None:
                raise Decided(size_guards.difference(wanted.decisions, other.decisions))
            raise error or SizeError("there are too few sizes at which the program runs")
        columns.append(found)
    return columns


def _other_edges(
    dims: Open,
    trace: Trace,
    tensors: Sequence[Tensor],
    steps: Sequence[int],
    points: list[list[int]],
    traced: list[Traced],
) -> set[int]:
    """The dimensions at whose size of 1 the program is another one.

    A layout of one row is contiguous, so an op may run its kernel there and its composition at other sizes: such ops
    are traced as their compositions at all sizes, and compared again.
    """
    named, parts = dims.dims(steps), [t.part for t in traced]
    others: set[int] = set()
    edges = []
    for sizes, k in dims.edges(steps, points[0]):
        try:
            made = _at(dims, trace, tensors, sizes)
        except SizeError:
            made = None
        if made is not None and made.structure == traced[0].structure and _agree(made, traced[0]):
            edges.append((sizes, made.part, k))
        else:
            others.add(k)
    names: list[str] = []
    for _ in range(_EXPANSIONS):
        failed = _oneflow._unfollowed(parts, [(sizes, part) for sizes, part, _ in edges], named, points)
        edges = [edges[at] for at, _ in failed]
        before = len(names)
        for name in sorted({name for _, found in failed for name in found}.difference(names)):
            # Some compositions are for gradients or other devices, and do not run here.
            with contextlib.suppress(NotImplementedError, SizeError):
                _at(dims, trace, tensors, points[0], [*names, name])
                names.append(name)
        if not edges or len(names) == before:
            break
        parts = [_at(dims, trace, tensors, sizes, names).part for sizes in points]
        edges = [(sizes, _at(dims, trace, tensors, sizes, names).part, k) for sizes, _, k in edges]
    return others | {k for _, _, k in edges}


def _at(
    dims: Open, trace: Trace, tensors: Sequence[Tensor], sizes: Sequence[int], expand: Sequence[str] = ()
) -> Traced:
    try:
        with size_guards.recorded(SourceLocations({})) as decisions:
            part, structure = trace(dims.resized(tensors, sizes), expand)
        return Traced(part, structure, decisions)
    except NotImplementedError:
        raise
    except (RuntimeError, ValueError, IndexError, AssertionError) as error:
        raise SizeError(f"the program does not run with {dims.shown(sizes)}: {error}") from error


# ---- marks on tensors, as PyTorch's compiler reads them

_MARKS = "_dynamo_dynamic_indices"
# Holds something once a tensor has been marked: before that no call looks for marks.
MARKED: list[bool] = []


def mark(tensor: Tensor, index: Any, low: int | None, high: int | None, strict: bool) -> None:
    """Note that a dimension of a tensor stays open in what is compiled for it."""
    for i in index if isinstance(index, (list, tuple)) else [index]:
        if not isinstance(i, int) or not -tensor.dim() <= i < tensor.dim():
            raise IndexError(f"mark_dynamic(): dimension {i} of a tensor with {tensor.dim()} dimensions")
        marks = tensor.__dict__.setdefault(_MARKS, {})
        marks[i % tensor.dim()] = (low, high, strict)
    MARKED[:] = [True]


def unmark(tensor: Tensor, index: Any) -> None:
    """Note that dimensions have the sizes that they have; all of them where ``index`` is None."""
    marks = tensor.__dict__.setdefault(_MARKS, {})
    indices = range(tensor.dim()) if index is None else index if isinstance(index, (list, tuple)) else [index]
    for i in indices:
        marks[i % tensor.dim()] = None


def marks_of(tensor: Tensor) -> dict[int, Any]:
    """The marks of a tensor by dimension: least and largest size, whether it has to stay open; None if it is fixed."""
    return getattr(tensor, _MARKS, None) or {}


def opened(function: Callable[..., Any], args: Any, kwargs: Any, spec: Any, tensors: Sequence[Tensor]) -> Open | None:
    """The named dimensions of a call: those of ``dynamic_shapes``, or the marks of its tensors."""
    found = spec if isinstance(spec, OpenDims) else open_dims(function, args, kwargs, spec)
    if found.auto:
        raise ValueError("dynamic_shapes: Dim.AUTO is for exports; name the dimension, or give Dim.DYNAMIC")
    if not spec and MARKED:
        groups: dict[tuple[Any, ...], str] = {}
        for i, tensor in enumerate(tensors):
            for axis, marked in marks_of(tensor).items():
                if marked is not None:
                    low, high, _ = marked
                    # As PyTorch does: dimensions of one size are one dimension.
                    key = (tensor.shape[axis], low, high)
                    name = groups.get(key) or groups.setdefault(key, found.fresh(low or 0, high))
                    found.named[i, axis] = name
    return Open(found, tensors) if found.named else None


def automatic(tensors: Sequence[Tensor], runs: Callable[[Open], bool]) -> list[Open]:
    """Choices of dimensions for a function that says nothing of them, the most first.

    As PyTorch does, dimensions of one size are one dimension, and those of size 0 and 1 are fixed. Each is tried alone
    first: those with which the function runs are open together, if that can be.

    Args:
        runs: whether the function can be traced with dimensions at other sizes.
    """
    groups: dict[int, list[tuple[int, int]]] = {}
    for i, tensor in enumerate(tensors):
        for axis, size in enumerate(tensor.shape):
            if size > 1 and marks_of(tensor).get(axis, ()) is not None:
                groups.setdefault(size, []).append((i, axis))

    def chosen(several: list[list[tuple[int, int]]]) -> Open:
        dims = OpenDims()
        for axes in several:
            name = dims.fresh()
            dims.named.update(dict.fromkeys(axes, name))
        return Open(dims, tensors)

    alone = [axes for axes in groups.values() if runs(chosen([axes]))]
    choices = [alone] if alone else []
    choices += [[axes] for axes in alone] if len(alone) > 1 else []
    return [chosen(choice) for choice in choices]
