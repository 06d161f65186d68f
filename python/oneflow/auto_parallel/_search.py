"""The search: ways to trace a step, numbers of pipeline stages, meshes of a stage, and for each the layouts.

For a mesh, parameters and inputs change first, from several starts (data parallel, tensor parallel): the best change of
one group is taken until none helps, then that of two groups on one axis, with calls as the rule of eager execution
lays them out. From there ``graph/src/solve`` searches the layouts of all calls as well. What nothing fits in is
tried with the forward of repeated blocks run again, and with the stages of ZeRO. With several pipeline stages the whole
model is laid out over the mesh of one stage, ``graph/src/solve/stages.rs`` cuts it, once for each number and form of
stages that a rank may have, and the stages run under the schedule that takes the fewest seconds (``_schedules.py``).

Equal blocks are one class (``graph/src/repeats.rs``), so a search takes the time of one block. Where changes of one
group after another would still be too many, the best start goes to ``solve`` at once, and what saves memory is tried
only where the fastest step, which it slows down, is faster than the best that fits so far.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from oneflow.auto_parallel._plan import Plan
from oneflow.auto_parallel._problem import WHOLE, Calls, Layout, Problem, Way, blocks_of, units_of, words_of
from oneflow.auto_parallel._schedules import (
    SCHEDULES,
    SHAPES,
    Scheduled,
    Shape,
    known_schedules,
    least,
    scheduled,
    shapes_of,
)
from oneflow.auto_parallel.cluster import Cluster

__all__ = ["find", "plan"]

# What memory is worth in the searches for less of it: multiples of a step's seconds over the limit's bytes.
_WEIGHTS = (0.01, 0.1, 1.0, 10.0)
# Schedules that take so much more of a step's time may become the fastest when their stages are cut anew; and the
# number of stages of which several begin earlier or later at once.
_WORTH, _FEW_STAGES = 0.15, 8
# Nodes that all changes of one and of two groups on all meshes may visit.
_MOST_VISITS = 5e6


@dataclass
class _Found:
    """A way, a mesh and layouts, with their costs: bytes over the limit, and seconds."""

    way: Way
    problem: Problem
    mesh: tuple[int, ...]
    state: list[Layout]
    key: tuple[float, float]
    calls: Calls = field(default_factory=dict)
    zero: int = 0
    # Of a pipeline: where it is cut, and its costs (`Problem.stages`); the same with one stage a rank; its schedule.
    cut: dict[str, Any] | None = None
    usual: dict[str, Any] | None = None
    schedule: str = SCHEDULES[0]
    shape: Shape = field(default_factory=Shape)

    @property
    def n_stages(self) -> int:
        return 1 if self.cut is None else len(self.cut["starts"])

    @property
    def n_rows(self) -> int:
        """The number of meshes, one for each rank of the pipeline."""
        return self.n_stages // self.shape.stages_per_rank


def plan(
    graph: Any,
    *args: Any,
    cluster: Cluster | str,
    memory: float | None = None,
    meshes: Iterable[Sequence[int]] | None = None,
    zero: Iterable[int] | None = None,
    recompute: Iterable[bool] | None = None,
    micro_batches: Iterable[int] | None = None,
    stages: Iterable[int] | None = None,
    schedules: Iterable[str] | None = None,
    **kwargs: Any,
) -> Plan:
    """Return the pipeline stages of a graph and the layouts of its parameters, inputs and calls with the shortest
    estimated step.

    Args:
        graph: an ``nn.Graph`` of local modules; it is traced here with all of the model, and does not run.
        args: inputs of a whole batch, as the graph's ``build`` takes them, and ``kwargs``.
        cluster: a :class:`Cluster`, the name of one that the package describes, or a toml file.
        memory: bytes that a device may hold; by default what the cluster's devices have.
        meshes: the meshes to try, such as ``[(8,), (2, 4)]``; by default one axis, and all pairs of axes. Those of
            pipelines have the devices of one stage.
        zero: the stages of ZeRO to try, 0 for none; by default 0, and 1 to 3 if the fastest plan does not fit in the
            memory.
        recompute: whether to run the forward of repeated blocks again in the backward: by default not, and both if
            the fastest plan does not fit in the memory.
        micro_batches: the numbers of micro-batches to try; by default the graph's own. Results that are losses
            become vectors of so many.
        stages: the numbers of pipeline stages to try; by default all that divide the devices where there are several
            micro-batches, else one. Stages consist of the members of the
            graph's outermost lists of modules and the modules beside those. What ops outside of all modules read has to
            lie on one stage, so some graphs have no cut.
        schedules: the schedules of pipelines to try; by default ``"1F1B"``, ``"ZB-H1"`` and ``"GPipe"`` with one stage
            a rank, ``"Interleaved1F1B"`` with two and four, ``"InterleavedZeroBubble"``, ``"ZB-V"`` and ``"DualPipeV"``
            with two. Stages are cut for one forward for one backward, then moved while the schedule gains by it.

    Raises:
        ValueError: no layout fits in the memory (the smallest peak is named), a mesh is not of the cluster's size, or
            the graph cannot be cut into so many stages.
        RuntimeError: the graph's tensors are global already.

    Example::

        >>> class Twice(oneflow.nn.Graph):
        ...     def build(self, x):
        ...         return x * 2
        >>> oneflow.auto_parallel.plan(Twice(), oneflow.ones(1024, 8), cluster="4xcpu", meshes=[(4,)]).inputs
        [('S(0)',)]
    """
    cluster = cluster if isinstance(cluster, Cluster) else Cluster.load(cluster)
    tried = None if meshes is None else [tuple(mesh) for mesh in meshes]
    return find(graph, args, kwargs, cluster, memory, tried, zero, recompute, micro_batches, {}, stages, schedules)


def find(
    graph: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    cluster: Cluster,
    memory: float | None,
    meshes: list[tuple[int, ...]] | None,
    zero: Iterable[int] | None,
    recompute: Iterable[bool] | None,
    micro_batches: Iterable[int] | None,
    fixed: dict[str, Layout],
    n_stages: Iterable[int] | None = None,
    schedules: Iterable[str] | None = None,
) -> Plan:
    """:func:`plan`, with layouts that are given."""
    names = known_schedules(schedules)
    limit = cluster.memory if memory is None else float(memory)
    n = cluster.n_devices
    pipelines = None if n_stages is None else sorted(set(n_stages))
    if any(not isinstance(k, int) or k < 1 or n % k for k in pipelines or ()):
        raise ValueError(f"auto_parallel.plan(): numbers of stages divide the {n} devices, got {pipelines}")
    stages = None if zero is None else sorted(set(zero))
    if any(stage not in (0, 1, 2, 3) for stage in stages or ()):
        raise ValueError(f"auto_parallel.plan(): stages of ZeRO are 0, 1, 2 and 3, got {stages}")
    micro = [None] if micro_batches is None else sorted(set(micro_batches))
    own = graph.config._micro_batches
    if any(m is not None and (not isinstance(m, int) or m < 1) for m in micro):
        raise ValueError(f"auto_parallel.plan(): micro_batches are positive integers, got {micro}")
    counts = pipelines or (_divisors(n) if max(own if m is None else m for m in micro) > 1 else [1])
    meshes = [mesh for k in counts for mesh in _meshes(n // k)] if meshes is None else meshes
    for mesh in meshes:
        if not mesh or not any(_product(mesh) * k == n for k in counts):
            stage = "" if counts == [1] else f", or a part of them for each of {counts} stages"
            raise ValueError(
                f"auto_parallel.plan(): mesh {mesh} has {_product(mesh)} devices, and {cluster.name} has {n}{stage}"
            )
    blocks = blocks_of(graph)
    again = [False] if recompute is None else sorted({bool(r) for r in recompute})
    if any(again) and not blocks:
        raise ValueError(
            "auto_parallel.plan(): recompute concerns repeated blocks, members of one class in a ModuleList or "
            "Sequential, and the graph has none"
        )
    found: list[_Found] = []
    # By micro-batches, stages and mesh: the fastest step without blocks that run again, which are slower.
    fastest: dict[Any, float] = {}

    def search(again: bool, m: int | None) -> bool:
        """Search a way; return whether a fastest step did not fit in the memory."""
        way, count = Way(blocks if again else [], m), own if m is None else m
        with way.set(graph):
            problem = Problem(graph, args, kwargs, fixed, count)
        tried = [
            (k, mesh)
            for k in pipelines or (_divisors(n) if count > 1 else [1])
            if pipelines is not None or k <= max(1, len(problem.units))
            for mesh in meshes
            if _product(mesh) * k == n
        ]
        quick = sum(_visits(problem, mesh) for _, mesh in tried) > _MOST_VISITS
        tight = False
        for k, mesh in tried:
            best = min((f.key[1] for f in found if f.key[0] == 0), default=math.inf)
            if quick and again and fastest.get((m, k, mesh), 0.0) >= best:
                continue
            n_before = len(found)
            tight |= _search_mesh(way, problem, k, mesh, cluster, limit, stages, found, quick, names)
            if not again:
                fastest[m, k, mesh] = min((f.key[1] for f in found[n_before:]), default=math.inf)
        return tight

    tight = [m for m, r in itertools.product(micro, again) if search(r, m)]
    if recompute is None and blocks:
        for m in dict.fromkeys(tight):
            search(True, m)
    if not found:
        raise ValueError(
            f"auto_parallel.plan(): the graph cannot be cut into {pipelines} stages over the meshes {meshes}: it has "
            f"{len(units_of(graph))} modules that stages are made of, and what ops outside of them read, parameters "
            "that two of them share, and norms of all gradients hold them together"
        )
    best = min(found, key=lambda f: f.key)
    over, _ = best.key
    if over > 0:
        raise ValueError(
            f"auto_parallel.plan(): no layout over {cluster.name} fits in {limit / 1e6:,.1f} MB a device; the "
            f"smallest peak found is {(limit + over) / 1e6:,.1f} MB, on the mesh {best.mesh}"
            + (f" in {best.n_stages} stages" if best.cut is not None else "")
        )
    return _plan_of(_refined(best, cluster, limit, names), found, cluster, limit, names)


def _refined(best: _Found, cluster: Cluster, limit: float, schedules: list[str]) -> _Found:
    """Return the best schedule of a pipeline with stages that begin earlier or later, as long as that takes less time.

    Stages are cut by a formula for one forward for one backward, which knows no other schedule.
    """
    problem, usual = best.problem, best.usual
    if usual is None:
        return best

    def priced(name: str, shape: Shape, starts: list[int] | None) -> _Found | None:
        n, form = best.n_rows * shape.stages_per_rank, (shape.stages_per_rank, shape.is_v)
        cut = problem.stages(n, best.mesh, cluster, limit, best.state, best.calls, best.zero, starts, form)
        made = cut and scheduled(cut, problem.micro_batches, name, shape, usual)
        if not made:
            return None
        return replace(best, cut=cut, key=_key(made.peaks, made.seconds, limit), schedule=name, shape=shape)

    found = [best]
    for name, shape in [(known, shape) for known in schedules for shape in SHAPES[known]]:
        made = best if (name, shape) == (best.schedule, best.shape) else priced(name, shape, None)
        if made is None or name == SCHEDULES[0] or made.key[1] > (1 + _WORTH) * best.key[1]:
            continue
        better: _Found | None = made
        while better is not None:
            made, better = better, None
            for starts in _neighbours(made.cut["starts"] if made.cut else []):
                other = priced(name, shape, starts)
                if other is not None and other.key < made.key:
                    better = other
                    break
        found.append(made)
    return min(found, key=lambda f: f.key)


def _neighbours(starts: list[int]) -> Iterable[list[int]]:
    """Each stage begins a module earlier or later; of few stages several that follow each other, too."""
    longest = len(starts) if len(starts) <= _FEW_STAGES else 1
    for n, first, step in itertools.product(range(1, longest + 1), range(1, len(starts)), (-1, 1)):
        if first + n <= len(starts):
            yield [*starts[:first], *[start + step for start in starts[first : first + n]], *starts[first + n :]]


def _search_mesh(
    way: Way,
    problem: Problem,
    n_stages: int,
    mesh: tuple[int, ...],
    cluster: Cluster,
    limit: float,
    stages: list[int] | None,
    found: list[_Found],
    quick: bool,
    schedules: list[str],
) -> bool:
    """Add what is found on a mesh; return whether the fastest did not fit in the memory."""

    def add(state: list[Layout], calls: Calls, zero: int) -> _Found | None:
        if n_stages == 1:
            cost = problem.estimate(mesh, cluster, state, calls, zero)
            made = _Found(way, problem, mesh, state, key_of(cost, limit), calls, zero)
        else:
            cut = problem.stages(n_stages, mesh, cluster, limit, state, calls, zero)
            if cut is None:
                return None
            best = min((f.key[1] for f in found if f.key[0] == 0), default=math.inf)

            def cut_as(shape: Shape) -> dict[str, Any] | None:
                n = n_stages * shape.stages_per_rank
                as_it_is = (shape.stages_per_rank, shape.is_v)
                return problem.stages(n, mesh, cluster, limit, state, calls, zero, None, as_it_is)

            key, name, shape, own = _schedule_of(cut, cut_as, problem.micro_batches, schedules, limit, best)
            made = _Found(way, problem, mesh, state, key, calls, zero, own, cut, name, shape)
        found.append(made)
        return made

    def key_of_stages(state: list[Layout]) -> tuple[float, float]:
        cut = problem.stages(n_stages, mesh, cluster, limit, state)
        return (math.inf, math.inf) if cut is None else key_of_cut(cut, limit)

    options = [problem.options(g, mesh) for g in range(len(problem.members))]
    starts = _starts(problem, mesh, options)
    if quick:
        rule = min(
            _plain_starts(problem, mesh, options), key=lambda s: key_of(problem.estimate(mesh, cluster, s), math.inf)
        )
        starts = []
    else:
        rule, key = search(problem, mesh, cluster, limit, None if n_stages == 1 else key_of_stages)
        if math.isinf(key[0]):
            return False
    free, calls, _ = problem.solve(mesh, cluster, rule)
    tight = False
    if stages is None or 0 in stages:
        both = [f for f in (add(rule, {}, 0), add(free, calls, 0)) if f is not None]
        if not both:
            return False
        fastest = min(both, key=lambda f: f.key)
        tight = fastest.key[0] > 0
        best = min((f.key[1] for f in found if f.key[0] == 0), default=math.inf)
        if quick and fastest.key[1] >= best:
            return False
        for weight in _WEIGHTS if tight else ():
            lean, few, _ = problem.solve(mesh, cluster, rule, weight * fastest.key[1] / limit)
            add(lean, few, 0)
    wanted = [s for s in stages if s] if stages is not None else [1, 2, 3] if tight else []
    for zero in wanted:
        for state in [*starts, rule]:
            add(state, {}, zero)
        add(free, calls, zero)
    return tight


def _schedule_of(
    cut: dict[str, Any],
    cut_as: Callable[[Shape], dict[str, Any] | None],
    micro_batches: int,
    schedules: list[str],
    limit: float,
    best: float,
) -> tuple[tuple[float, float], str, Shape, dict[str, Any]]:
    """Return the key of the best schedule, its name, its shape and its cut.

    Where no schedule can take fewer seconds than ``best``, only the first is looked at, if it has one stage a rank.
    """
    found: list[tuple[tuple[float, float], str, Shape, dict[str, Any]]] = []

    def add(shape: Shape, own: dict[str, Any], names: list[str]) -> None:
        for name in names:
            made = scheduled(own, micro_batches, name, shape, cut)
            if made is not None:
                found.append((_key(made.peaks, made.seconds, limit), name, shape, own))

    for shape in shapes_of(schedules):
        names = [name for name in schedules if shape in SHAPES[name]]
        own = cut if shape == Shape() else None
        if own is not None:
            # The rest holds more, or takes the same work.
            add(shape, own, names[:1])
            names = names[1:]
        if found and (found[0][0][0] > 0 or least(cut, micro_batches) >= best):
            break
        own = own or cut_as(shape)
        if own is not None and names:
            add(shape, own, names)
    if not found:
        # No schedule that was asked for has a table for so many micro-batches, or modules enough.
        return (math.inf, math.inf), schedules[0], Shape(), cut
    return min(found, key=lambda one: one[0])


def _visits(problem: Problem, mesh: tuple[int, ...]) -> float:
    """Nodes that one round of changes of one group, and of two, visits from each start."""
    options = [len(problem.options(g, mesh)) for g in range(len(problem.members))]
    return 3.0 * problem.n_nodes * sum(options) * (1 + len(options) / 2)


def key_of_cut(cut: dict[str, Any], limit: float) -> tuple[float, float]:
    """Bytes of the fullest stage over the limit, then seconds, under the schedule for which stages are cut."""
    return _key(cut["peaks"], cut["total"], limit)


def _key(peaks: list[float], seconds: float, limit: float) -> tuple[float, float]:
    return max(0.0, max(peaks) - limit), seconds


def key_of(cost: dict[str, Any], limit: float) -> tuple[float, float]:
    """Bytes over the limit, then seconds."""
    return max(0.0, cost["peak"] - limit), cost["compute_seconds"] + cost["move_seconds"]


def search(
    problem: Problem,
    mesh: tuple[int, ...],
    cluster: Cluster,
    limit: float,
    price: Callable[[list[Layout]], tuple[float, float]] | None = None,
) -> tuple[list[Layout], tuple[float, float]]:
    """Return the best layouts of parameters and inputs found, with calls as the rule lays them out, and their key.

    ``price`` returns the key of layouts: bytes over the limit, and seconds; by default without pipeline stages.
    """
    known: dict[tuple[Layout, ...], tuple[float, float]] = {}

    def key(state: list[Layout]) -> tuple[float, float]:
        at = tuple(state)
        if at not in known:
            known[at] = price(state) if price else key_of(problem.estimate(mesh, cluster, state), limit)
        return known[at]

    options = [problem.options(g, mesh) for g in range(len(problem.members))]
    best = min((_descend(start, options, mesh, key) for start in _starts(problem, mesh, options)), key=key)
    return best, key(best)


def _starts(
    problem: Problem,
    mesh: tuple[int, ...],
    options: list[list[Layout]],
    splits: list[set[int]] | None = None,
    dims: tuple[int, ...] = (WHOLE, 0, 1),
) -> list[list[Layout]]:
    """Data parallel over all axes, over each alone, and parameters split along each dimension."""
    axes = range(len(mesh))
    starts = []
    for split in splits or [set(axes), *[{axis} for axis in axes], set()]:
        batch = tuple(0 if axis in split else WHOLE for axis in axes)
        for dim in dims:
            weights = tuple(dim if axis not in split else WHOLE for axis in axes)
            start = []
            for g, allowed in enumerate(options):
                wanted = batch if g < problem.n_inputs else weights
                whole = (WHOLE,) * len(mesh)
                start.append(wanted if wanted in allowed else whole if whole in allowed else allowed[0])
            if start not in starts:
                starts.append(start)
    return starts


def _plain_starts(problem: Problem, mesh: tuple[int, ...], options: list[list[Layout]]) -> list[list[Layout]]:
    """Data parallel over all axes, and over the first with parameters split over the others."""
    return _starts(problem, mesh, options, [set(range(len(mesh))), {0} if len(mesh) > 1 else set()], (0,))


def _descend(state: list[Layout], options: list[list[Layout]], mesh: tuple[int, ...], key: Any) -> list[Layout]:
    """Take the best change of one group, or of two on one axis, until none helps."""
    while True:
        singles = [
            [*state[:g], layout, *state[g + 1 :]]
            for g, allowed in enumerate(options)
            for layout in allowed
            if layout != state[g]
        ]
        better = min(singles, key=key, default=state)
        if key(better) >= key(state):
            better = min(_pairs(state, options, mesh), key=key, default=state)
            if key(better) >= key(state):
                return state
        state = better


def _pairs(state: list[Layout], options: list[list[Layout]], mesh: tuple[int, ...]) -> Iterable[list[Layout]]:
    for axis in range(len(mesh)):
        changes = [
            [s for s in allowed if s != state[g] and all(s[k] == state[g][k] for k in range(len(mesh)) if k != axis)]
            for g, allowed in enumerate(options)
        ]
        for a, b in itertools.combinations(range(len(options)), 2):
            for one, two in itertools.product(changes[a], changes[b]):
                made = list(state)
                made[a], made[b] = one, two
                yield made


# ---- the result


def _plan_of(best: _Found, found: list[_Found], cluster: Cluster, limit: float, tried: list[str]) -> Plan:
    """The plan of what was found to be best, with its reasons."""
    problem, mesh, state = best.problem, best.mesh, best.state
    pinned, stands = problem.unfolded(mesh, cluster, state, best.calls)
    whole = problem.whole()
    cost = whole.estimate(mesh, cluster, state, pinned, best.zero)
    # The plan says what the whole graph costs; what changes add is the difference between two searched costs.
    parts, cut, seconds, peak = best.n_rows, best.cut, key_of(cost, limit)[1], cost["peak"]
    schedules: list[Any] = []
    peaks: list[float] = []

    def cut_at(problem: Problem, shape: Shape, calls: Calls, state: list[Layout], starts: list[int] | None) -> Any:
        form = (shape.stages_per_rank, shape.is_v)
        n = parts * shape.stages_per_rank
        return problem.stages(n, mesh, cluster, limit, state, calls, best.zero, starts, form)

    if cut is not None and best.usual is not None:
        usual = cut_at(whole, Shape(), pinned, state, best.usual["starts"]) or best.usual
        cut = cut_at(whole, best.shape, pinned, state, cut["starts"]) or cut
        priced = []
        for shape in shapes_of(tried):
            plain = usual if shape == Shape() else cut_at(whole, shape, pinned, state, None)
            for name in [name for name in tried if shape in SHAPES[name]]:
                its = cut if (name, shape) == (best.schedule, best.shape) else plain
                made = its and scheduled(its, problem.micro_batches, name, shape, usual)
                priced += [(made, shape)] if made else []
        (own,) = [made for made, shape in priced if (made.name, shape) == (best.schedule, best.shape)]
        seconds, peaks, peak = own.seconds, own.peaks, max(own.peaks)
        schedules = _schedule_rows(priced)
    compute, move = cost["compute_seconds"] / parts, cost["move_seconds"] / parts
    if cut is not None:
        move += problem.micro_batches * sum(cut["messages"]) / parts

    def adds(state: list[Layout], calls: Calls, starts: list[int] | None = None) -> float | None:
        if best.cut is None:
            key = key_of(problem.estimate(mesh, cluster, state, calls, best.zero), limit)
        else:
            other = cut_at(problem, best.shape, calls, state, starts or best.cut["starts"])
            # Of 1F1B the formula says what it takes; of others what the tables differ by.
            changed = other and scheduled(other, problem.micro_batches, best.schedule, best.shape, best.usual)
            if not changed:
                return None
            key = _key(changed.peaks, changed.seconds, limit)
        return key[1] - best.key[1] if key[0] == 0 else None

    calls = []
    # One price for all calls that one stands for.
    more_of: dict[int, float | None] = {}
    for at, (ins, outs) in sorted(pinned.items()):
        key, number, where = whole.calls[at]
        one = stands[at]
        if one not in more_of:
            more_of[one] = adds(state, {k: v for k, v in best.calls.items() if k != one})
        more = more_of[one]
        calls.append([key, number, [list(s) for s in ins], [list(s) for s in outs], where, more])
    layouts, inputs = problem.named(state, len(mesh))
    stages: list[list[str]] = []
    stage_costs: list[Any] = []
    homes: dict[str, str] = {}
    input_homes: list[str] = []
    if cut is not None:
        starts = cut["starts"]
        stages = [problem.units[i:j] for i, j in itertools.pairwise([*starts, len(problem.units)])]
        homes, input_homes = problem.homes()
        for k, row in enumerate(best.shape.rows(len(starts))):
            other, more = min(
                _moved_cuts(starts, k, len(problem.units), state, best.calls, adds),
                key=lambda cut: cut[1],
                default=("", 0.0),
            )
            costs = [cut[key][k] for key in ("seconds", "messages", "updates")]
            stage_costs.append([*costs, peaks[row], other, more])
    return Plan(
        cluster=cluster.name,
        mesh=list(mesh),
        layouts=layouts,
        inputs=inputs,
        seconds=seconds,
        compute_seconds=compute,
        move_seconds=move,
        peak=peak,
        memory=limit,
        bytes=[n / parts for n in cost["bytes"]],
        moves=[list(move) for move in cost["moves"]],
        others=_others(found, limit),
        reasons=_reasons(problem, mesh, state, lambda changed: adds(changed, best.calls)),
        calls=calls,
        zero=best.zero,
        recompute=best.way.recompute,
        micro_batches=best.way.micro_batches,
        input_sizes=problem.input_sizes,
        stages=stages,
        stage_costs=stage_costs,
        homes=homes,
        input_homes=input_homes,
        schedule=best.schedule,
        schedules=schedules,
        rows=[] if best.shape == Shape() else best.shape.rows(best.n_stages),
    )


def _reasons(
    problem: Problem, mesh: tuple[int, ...], state: list[Layout], adds: Callable[[list[Layout]], float | None]
) -> list[Any]:
    """For each group of parameters its layout, the cheapest other one, and the seconds that this one adds."""
    reasons = []
    for g, members in enumerate(problem.members):
        changed = []
        for layout in problem.options(g, mesh):
            if layout != state[g]:
                more = adds([*state[:g], layout, *state[g + 1 :]])
                if more is not None:
                    changed.append((more, words_of(layout)))
        more, words = min(changed, default=(0.0, ()))
        names = members[0][1] + (f" and {len(members) - 1} like it" if len(members) > 1 else "")
        # Lists, as a saved plan has them when it is loaded.
        reasons.append([names, list(words_of(state[g])), list(words), more])
    return reasons


def _schedule_rows(priced: list[tuple[Scheduled, Shape]]) -> list[Any]:
    """Of each schedule the seconds, the largest peak and the stages of a rank, the fastest first."""
    rows = [[made.name, made.seconds, max(made.peaks), shape.stages_per_rank] for made, shape in priced]
    return sorted(rows, key=lambda row: row[1])


def _moved_cuts(
    starts: list[int], stage: int, n_units: int, state: list[Layout], calls: Calls, adds: Any
) -> Iterable[tuple[str, float]]:
    """What it adds to begin a stage one unit earlier or later."""
    for step, word in ((-1, "one module more"), (1, "one module less")) if stage else ():
        moved = [*starts[:stage], starts[stage] + step, *starts[stage + 1 :]]
        rises = all(a < b for a, b in itertools.pairwise([*moved, n_units]))
        if rises and (more := adds(state, calls, moved)) is not None:
            yield word, more


def _others(found: list[_Found], limit: float) -> list[Any]:
    """The best of each mesh, number of stages, stage of ZeRO, recomputation and number of micro-batches tried."""
    best: dict[Any, _Found] = {}
    for f in found:
        way = (f.mesh, f.n_rows, f.zero, bool(f.way.recompute), f.way.micro_batches)
        if way not in best or f.key < best[way].key:
            best[way] = f
    rows = [
        [list(mesh), f.n_stages, zero, again, micro, f.key[1], f.key[0] + limit if f.key[0] else None]
        for (mesh, _, zero, again, micro), f in best.items()
    ]
    return sorted(rows, key=lambda row: (row[6] is not None, row[6] or 0.0, row[5]))


def _meshes(n: int) -> list[tuple[int, ...]]:
    """One axis, and all pairs of axes."""
    return [(n,), *[(n // k, k) for k in range(2, n) if n % k == 0]]


def _divisors(n: int) -> list[int]:
    return [k for k in range(1, n + 1) if n % k == 0]


def _product(mesh: Sequence[int]) -> int:
    size = 1
    for k in mesh:
        size *= k
    return size
