"""The search: ways to trace a step, meshes of a cluster, and for each the layouts of parameters, inputs and calls.

For a mesh, parameters and inputs change first, from several starts (data parallel, tensor parallel): the best change of
one group is taken until none helps, then that of two groups on one axis, with calls as the rule of eager execution
lays them out. From there ``graph/src/solve`` searches the layouts of all calls as well. What nothing fits in is
tried with the forward of repeated blocks run again, and with the stages of ZeRO.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oneflow.auto_parallel._plan import Plan
from oneflow.auto_parallel._problem import WHOLE, Calls, Layout, Problem, Way, blocks_of, words_of
from oneflow.auto_parallel.cluster import Cluster

__all__ = ["find", "plan"]

# What memory is worth in the searches for less of it: multiples of a step's seconds over the limit's bytes.
_WEIGHTS = (0.01, 0.1, 1.0, 10.0)


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


def plan(
    graph: Any,
    *args: Any,
    cluster: Cluster | str,
    memory: float | None = None,
    meshes: Iterable[Sequence[int]] | None = None,
    zero: Iterable[int] | None = None,
    recompute: Iterable[bool] | None = None,
    micro_batches: Iterable[int] | None = None,
    **kwargs: Any,
) -> Plan:
    """Return the layouts of a graph's parameters, inputs and calls with the shortest estimated step.

    Args:
        graph: an ``nn.Graph`` of local modules; it is traced here with all of the model, and does not run.
        args: inputs of a whole batch, as the graph's ``build`` takes them, and ``kwargs``.
        cluster: a :class:`Cluster`, the name of one that the package describes, or a toml file.
        memory: bytes that a device may hold; by default what the cluster's devices have.
        meshes: the meshes to try, such as ``[(8,), (2, 4)]``; by default one axis, and all pairs of axes.
        zero: the stages of ZeRO to try, 0 for none; by default 0, and 1 to 3 if the fastest plan does not fit in the
            memory.
        recompute: whether to run the forward of repeated blocks again in the backward: by default not, and both if
            the fastest plan does not fit in the memory.
        micro_batches: the numbers of micro-batches to try; by default the graph's own. Results that are losses
            become vectors of so many.

    Raises:
        ValueError: no layout fits in the memory (the smallest peak is named), or a mesh is not of the cluster's size.
        RuntimeError: the graph's tensors are global already.

    Example::

        >>> class Twice(oneflow.nn.Graph):
        ...     def build(self, x):
        ...         return x * 2
        >>> oneflow.auto_parallel.plan(Twice(), oneflow.ones(1024, 8), cluster="4xcpu", meshes=[(4,)]).inputs
        [('S(0)',)]
    """
    cluster = cluster if isinstance(cluster, Cluster) else Cluster.load(cluster)
    tried = [tuple(mesh) for mesh in meshes] if meshes is not None else _meshes(cluster.n_devices)
    return find(graph, args, kwargs, cluster, memory, tried, zero, recompute, micro_batches, {})


def find(
    graph: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    cluster: Cluster,
    memory: float | None,
    meshes: list[tuple[int, ...]],
    zero: Iterable[int] | None,
    recompute: Iterable[bool] | None,
    micro_batches: Iterable[int] | None,
    fixed: dict[str, Layout],
) -> Plan:
    """:func:`plan`, with layouts that are given."""
    limit = cluster.memory if memory is None else float(memory)
    n = cluster.n_devices
    for mesh in meshes:
        if _product(mesh) != n or not mesh:
            raise ValueError(
                f"auto_parallel.plan(): mesh {mesh} has {_product(mesh)} devices, and {cluster.name} has {n}"
            )
    stages = None if zero is None else sorted(set(zero))
    if any(stage not in (0, 1, 2, 3) for stage in stages or ()):
        raise ValueError(f"auto_parallel.plan(): stages of ZeRO are 0, 1, 2 and 3, got {stages}")
    micro = [None] if micro_batches is None else sorted(set(micro_batches))
    if any(m is not None and (not isinstance(m, int) or m < 1) for m in micro):
        raise ValueError(f"auto_parallel.plan(): micro_batches are positive integers, got {micro}")
    blocks = blocks_of(graph)
    again = [False] if recompute is None else sorted({bool(r) for r in recompute})
    if any(again) and not blocks:
        raise ValueError(
            "auto_parallel.plan(): recompute concerns repeated blocks, members of one class in a ModuleList or "
            "Sequential, and the graph has none"
        )
    found: list[_Found] = []

    def search(again: bool, m: int | None) -> bool:
        """Search a way; return whether a fastest step did not fit in the memory."""
        way = Way(blocks if again else [], m)
        with way.set(graph):
            problem = Problem(graph, args, kwargs, fixed)
        tight = False
        for mesh in meshes:
            tight |= _search_mesh(way, problem, mesh, cluster, limit, stages, found)
        return tight

    tight = [m for m, r in itertools.product(micro, again) if search(r, m)]
    if recompute is None and blocks:
        for m in dict.fromkeys(tight):
            search(True, m)
    best = min(found, key=lambda f: f.key)
    over, _ = best.key
    if over > 0:
        raise ValueError(
            f"auto_parallel.plan(): no layout over {cluster.name} fits in {limit / 1e6:,.1f} MB a device; the "
            f"smallest peak found is {(limit + over) / 1e6:,.1f} MB, on the mesh {best.mesh}"
        )
    return _plan_of(best, found, cluster, limit)


def _search_mesh(
    way: Way,
    problem: Problem,
    mesh: tuple[int, ...],
    cluster: Cluster,
    limit: float,
    stages: list[int] | None,
    found: list[_Found],
) -> bool:
    """Add what is found on a mesh; return whether the fastest did not fit in the memory."""

    def add(state: list[Layout], calls: Calls, zero: int) -> _Found:
        cost = problem.estimate(mesh, cluster, state, calls, zero)
        made = _Found(way, problem, mesh, state, key_of(cost, limit), calls, zero)
        found.append(made)
        return made

    rule, _ = search(problem, mesh, cluster, limit)
    tight = False
    if stages is None or 0 in stages:
        add(rule, {}, 0)
        free, calls, _ = problem.solve(mesh, cluster, rule)
        fastest = add(free, calls, 0)
        tight = fastest.key[0] > 0
        for weight in _WEIGHTS if tight else ():
            lean, calls, _ = problem.solve(mesh, cluster, rule, weight * fastest.key[1] / limit)
            add(lean, calls, 0)
    wanted = [s for s in stages if s] if stages is not None else [1, 2, 3] if tight else []
    if wanted:
        options = [problem.options(g, mesh) for g in range(len(problem.members))]
        starts = [*_starts(problem, mesh, options), rule]
        for zero, state in itertools.product(wanted, starts):
            add(state, {}, zero)
    return tight


def key_of(cost: dict[str, Any], limit: float) -> tuple[float, float]:
    """Bytes over the limit, then seconds."""
    return max(0.0, cost["peak"] - limit), cost["compute_seconds"] + cost["move_seconds"]


def search(
    problem: Problem, mesh: tuple[int, ...], cluster: Cluster, limit: float
) -> tuple[list[Layout], tuple[float, float]]:
    """Return the best layouts of parameters and inputs found, with calls as the rule lays them out, and their key."""
    known: dict[tuple[Layout, ...], tuple[float, float]] = {}

    def key(state: list[Layout]) -> tuple[float, float]:
        at = tuple(state)
        if at not in known:
            known[at] = key_of(problem.estimate(mesh, cluster, state), limit)
        return known[at]

    options = [problem.options(g, mesh) for g in range(len(problem.members))]
    best = min((_descend(start, options, mesh, key) for start in _starts(problem, mesh, options)), key=key)
    return best, key(best)


def _starts(problem: Problem, mesh: tuple[int, ...], options: list[list[Layout]]) -> list[list[Layout]]:
    """Data parallel over all axes, over each alone, and parameters split along each dimension."""
    axes = range(len(mesh))
    starts = []
    for split in [set(axes), *[{axis} for axis in axes], set()]:
        batch = tuple(0 if axis in split else WHOLE for axis in axes)
        for dim in (WHOLE, 0, 1):
            weights = tuple(dim if axis not in split else WHOLE for axis in axes)
            start = []
            for g, allowed in enumerate(options):
                wanted = batch if g < problem.n_inputs else weights
                whole = (WHOLE,) * len(mesh)
                start.append(wanted if wanted in allowed else whole if whole in allowed else allowed[0])
            if start not in starts:
                starts.append(start)
    return starts


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


def _plan_of(best: _Found, found: list[_Found], cluster: Cluster, limit: float) -> Plan:
    """The plan of what was found to be best, with its reasons."""
    problem, mesh, state = best.problem, best.mesh, best.state
    cost = problem.estimate(mesh, cluster, state, best.calls, best.zero)
    seconds = cost["compute_seconds"] + cost["move_seconds"]

    def adds(state: list[Layout], calls: Calls) -> float | None:
        other = problem.estimate(mesh, cluster, state, calls, best.zero)
        return key_of(other, limit)[1] - seconds if key_of(other, limit)[0] == 0 else None

    reasons = []
    for g, members in enumerate(problem.members):
        changed = []
        for layout in problem.options(g, mesh):
            if layout != state[g]:
                more = adds([*state[:g], layout, *state[g + 1 :]], best.calls)
                if more is not None:
                    changed.append((more, words_of(layout)))
        more, words = min(changed, default=(0.0, ()))
        names = members[0][1] + (f" and {len(members) - 1} like it" if len(members) > 1 else "")
        # Lists, as a saved plan has them when it is loaded.
        reasons.append([names, list(words_of(state[g])), list(words), more])
    calls = []
    for at, (ins, outs) in sorted(best.calls.items()):
        key, number, where = problem.calls[at]
        more = adds(state, {k: v for k, v in best.calls.items() if k != at})
        calls.append([key, number, [list(s) for s in ins], [list(s) for s in outs], where, more])
    layouts, inputs = problem.named(state, len(mesh))
    return Plan(
        cluster=cluster.name,
        mesh=list(mesh),
        layouts=layouts,
        inputs=inputs,
        seconds=seconds,
        compute_seconds=cost["compute_seconds"],
        move_seconds=cost["move_seconds"],
        peak=cost["peak"],
        memory=limit,
        bytes=cost["bytes"],
        moves=[list(move) for move in cost["moves"]],
        others=_others(found, limit),
        reasons=reasons,
        calls=calls,
        zero=best.zero,
        recompute=best.way.recompute,
        micro_batches=best.way.micro_batches,
        input_sizes=problem.input_sizes,
    )


def _others(found: list[_Found], limit: float) -> list[Any]:
    """The best of each mesh, stage of ZeRO, recomputation and number of micro-batches that was tried."""
    best: dict[Any, _Found] = {}
    for f in found:
        way = (f.mesh, f.zero, bool(f.way.recompute), f.way.micro_batches)
        if way not in best or f.key < best[way].key:
            best[way] = f
    rows = [
        [list(mesh), zero, again, micro, f.key[1], f.key[0] + limit if f.key[0] else None]
        for (mesh, zero, again, micro), f in best.items()
    ]
    return sorted(rows, key=lambda row: (row[5] is not None, row[5] or 0.0, row[4]))


def _meshes(n: int) -> list[tuple[int, ...]]:
    """One axis, and all pairs of axes."""
    return [(n,), *[(n // k, k) for k in range(2, n) if n % k == 0]]


def _product(mesh: Sequence[int]) -> int:
    size = 1
    for k in mesh:
        size *= k
    return size
