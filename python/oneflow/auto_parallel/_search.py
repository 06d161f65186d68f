"""The search: meshes of a cluster, and for each the layouts of parameters and inputs, by steps from several starts.

Parameters whose names differ in numbers alone and whose shapes are equal (those of repeated layers) change together.
From each start the best change of one group is taken until none helps, then that of two groups on one axis.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from oneflow import Tensor
from oneflow._trace.structure import flatten_call
from oneflow._trace.tracing import slices, trace_program
from oneflow.auto_parallel._plan import Plan
from oneflow.auto_parallel.cluster import Cluster, Link

__all__ = ["Problem", "plan"]

# A layout: for each axis the dimension that it splits, or -1.
_Layout = tuple[int, ...]
_WHOLE = -1


def plan(
    graph: Any,
    *args: Any,
    cluster: Cluster | str,
    memory: float | None = None,
    meshes: Iterable[Sequence[int]] | None = None,
    **kwargs: Any,
) -> Plan:
    """Return the layouts of a graph's parameters and inputs with the shortest estimated step.

    Args:
        graph: an ``nn.Graph`` of local modules; it is traced here with all of the model, and does not run.
        args: inputs of a whole batch, as the graph's ``build`` takes them, and ``kwargs``.
        cluster: a :class:`Cluster`, the name of one that the package describes, or a toml file.
        memory: bytes that a device may hold; by default what the cluster's devices have.
        meshes: the meshes to try, such as ``[(8,), (2, 4)]``; by default one axis, and all pairs of axes.

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
    limit = cluster.memory if memory is None else float(memory)
    problem = Problem(graph, args, kwargs)
    n = cluster.n_devices
    tried = [tuple(mesh) for mesh in meshes] if meshes is not None else _meshes(n)
    for mesh in tried:
        size = 1
        for k in mesh:
            size *= k
        if size != n or not mesh:
            raise ValueError(f"auto_parallel.plan(): mesh {mesh} has {size} devices, and {cluster.name} has {n}")
    found = [(mesh, *problem.search(mesh, cluster, limit)) for mesh in tried]
    best = min(found, key=lambda f: f[2])
    over, _ = best[2]
    if over > 0:
        raise ValueError(
            f"auto_parallel.plan(): no layout over {cluster.name} fits in {limit / 1e6:,.1f} MB a device; the "
            f"smallest peak found is {(limit + over) / 1e6:,.1f} MB, on the mesh {best[0]}"
        )
    others = sorted([list(mesh), *_seconds_and_peak(problem, mesh, cluster, state)] for mesh, state, _ in found)
    return problem.plan(best[0], best[1], cluster, limit, sorted(others, key=lambda o: o[1]))


class Problem:
    """A traced step, and groups of tensors that share a layout."""

    def __init__(self, graph: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        names = dict(graph._parameters())
        if any(tensor.is_global for tensor in names.values()):
            raise RuntimeError(
                "auto_parallel.plan(): the graph's tensors are global already: plan before laying them out"
            )
        tensors: list[Tensor] = []
        flatten_call(args, kwargs, tensors)
        if any(t.is_global for t in tensors):
            raise RuntimeError("auto_parallel.plan(): give inputs of the whole batch as local tensors")
        stepping = [(o, list(o.state)) for o in graph._stepping()]
        zero = slices(graph)
        self._layouts = trace_program(graph, args, kwargs, tensors, zero, lambda trace, out: trace.finish_layouts(out))
        for optimizer, before in stepping:
            # States that were made for the trace have no layout yet.
            for param in [p for p in optimizer.state if not any(p is known for known in before)]:
                del optimizer.state[param]
        self.names = list(names)
        groups: dict[Any, list[tuple[int, str]]] = {}
        for value, name, sizes, dtype, _, _ in self._layouts.variables():
            if name in names:
                groups.setdefault((re.sub(r"\d+", "#", name), tuple(sizes), dtype), []).append((value, name))
        # Inputs of one length are batches that are cut alike.
        inputs: dict[Any, list[tuple[int, str]]] = {}
        self._inputs = self._layouts.inputs()
        for i, (value, sizes) in enumerate(self._inputs):
            inputs.setdefault(("input", tuple(sizes[:1])), []).append((value, f"input {i}"))
        self.members = [*inputs.values(), *groups.values()]
        self.n_inputs = len(inputs)
        # What may be split: of inputs the first dimension.
        self._sizes = [list(key[1]) for key in [*inputs, *groups]]

    # ---- costs

    def estimate(self, mesh: tuple[int, ...], cluster: Cluster, state: list[_Layout]) -> dict[str, Any]:
        """Return what a step costs with a layout for each group."""
        layouts = {value: list(s) for members, s in zip(self.members, state, strict=True) for value, _ in members}
        links = _links(mesh, cluster)
        latency, bandwidth = [link.latency for link in links], [float(link.bandwidth) for link in links]
        return self._layouts.estimate(
            layouts, list(mesh), latency, bandwidth, float(cluster.flops), float(cluster.memory_bandwidth)
        )

    def options(self, group: int, mesh: tuple[int, ...]) -> list[_Layout]:
        """Return the layouts of a group whose splits divide: of inputs along the first dimension alone."""
        sizes = self._sizes[group]
        found = []
        for layout in itertools.product(range(_WHOLE, len(sizes)), repeat=len(mesh)):
            parts = [1] * len(sizes)
            for axis, dim in enumerate(layout):
                if dim != _WHOLE:
                    parts[dim] *= mesh[axis]
            if all(size % n == 0 and size >= n for size, n in zip(sizes, parts, strict=True)):
                found.append(layout)
        return found

    # ---- search

    def search(
        self, mesh: tuple[int, ...], cluster: Cluster, limit: float
    ) -> tuple[list[_Layout], tuple[float, float]]:
        """Return the best state found, and its key: bytes over the limit, then seconds."""
        known: dict[tuple[_Layout, ...], tuple[float, float]] = {}

        def key(state: list[_Layout]) -> tuple[float, float]:
            at = tuple(state)
            if at not in known:
                cost = self.estimate(mesh, cluster, state)
                known[at] = (max(0.0, cost["peak"] - limit), cost["compute_seconds"] + cost["move_seconds"])
            return known[at]

        options = [self.options(g, mesh) for g in range(len(self.members))]
        best = min((self._descend(start, options, mesh, key) for start in self._starts(mesh, options)), key=key)
        return best, key(best)

    def _starts(self, mesh: tuple[int, ...], options: list[list[_Layout]]) -> list[list[_Layout]]:
        """Data parallel over all axes, over each alone, and parameters split along each dimension."""
        axes = range(len(mesh))
        starts = []
        for split in [set(axes), *[{axis} for axis in axes], set()]:
            batch = tuple(0 if axis in split else _WHOLE for axis in axes)
            for dim in (_WHOLE, 0, 1):
                weights = tuple(dim if axis not in split else _WHOLE for axis in axes)
                start = []
                for g, allowed in enumerate(options):
                    wanted = batch if g < self.n_inputs else weights
                    start.append(wanted if wanted in allowed else (_WHOLE,) * len(mesh))
                if start not in starts:
                    starts.append(start)
        return starts

    def _descend(
        self, state: list[_Layout], options: list[list[_Layout]], mesh: tuple[int, ...], key: Any
    ) -> list[_Layout]:
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
                better = min(self._pairs(state, options, mesh), key=key, default=state)
                if key(better) >= key(state):
                    return state
            state = better

    def _pairs(
        self, state: list[_Layout], options: list[list[_Layout]], mesh: tuple[int, ...]
    ) -> Iterable[list[_Layout]]:
        for axis in range(len(mesh)):
            changes = [
                [
                    s
                    for s in allowed
                    if s != state[g] and all(s[k] == state[g][k] for k in range(len(mesh)) if k != axis)
                ]
                for g, allowed in enumerate(options)
            ]
            for a, b in itertools.combinations(range(len(options)), 2):
                for one, two in itertools.product(changes[a], changes[b]):
                    made = list(state)
                    made[a], made[b] = one, two
                    yield made

    # ---- the result

    def plan(
        self, mesh: tuple[int, ...], state: list[_Layout], cluster: Cluster, limit: float, others: list[Any]
    ) -> Plan:
        """Return the plan of a state."""
        cost = self.estimate(mesh, cluster, state)
        seconds = cost["compute_seconds"] + cost["move_seconds"]
        reasons = []
        for g, members in enumerate(self.members):
            changed = []
            for layout in self.options(g, mesh):
                if layout != state[g]:
                    other = self.estimate(mesh, cluster, [*state[:g], layout, *state[g + 1 :]])
                    if other["peak"] <= limit:
                        changed.append((other["compute_seconds"] + other["move_seconds"] - seconds, _words(layout)))
            adds, words = min(changed, default=(0.0, ()))
            names = members[0][1] + (f" and {len(members) - 1} like it" if len(members) > 1 else "")
            # Lists, as a saved plan has them when it is loaded.
            reasons.append([names, list(_words(state[g])), list(words), adds])
        whole = ("B",) * len(mesh)
        layouts = dict.fromkeys(self.names, whole)
        by_value: dict[int, tuple[str, ...]] = {}
        for members, layout in zip(self.members, state, strict=True):
            layouts.update((name, _words(layout)) for _, name in members if name in layouts)
            by_value.update((value, _words(layout)) for value, _ in members)
        inputs = [by_value[value] for value, _ in self._inputs]
        return Plan(
            cluster.name,
            list(mesh),
            layouts,
            inputs,
            seconds,
            cost["compute_seconds"],
            cost["move_seconds"],
            cost["peak"],
            limit,
            cost["bytes"],
            [list(move) for move in cost["moves"]],
            others,
            reasons,
        )


def _seconds_and_peak(problem: Problem, mesh: tuple[int, ...], cluster: Cluster, state: list[_Layout]) -> list[float]:
    cost = problem.estimate(mesh, cluster, state)
    return [cost["compute_seconds"] + cost["move_seconds"], cost["peak"]]


def _words(layout: _Layout) -> tuple[str, ...]:
    return tuple("B" if dim == _WHOLE else f"S({dim})" for dim in layout)


def _meshes(n: int) -> list[tuple[int, ...]]:
    """One axis, and all pairs of axes."""
    return [(n,), *[(n // k, k) for k in range(2, n) if n % k == 0]]


def _links(mesh: tuple[int, ...], cluster: Cluster) -> list[Link]:
    """The slowest link that each axis crosses; ranks of a host follow each other, the last axis first."""
    links, reach = [], 1
    for n in reversed(mesh):
        reach *= n
        inside = reach <= cluster.devices_per_host and cluster.devices_per_host % reach == 0
        links.append(cluster.inside if inside else cluster.between)
    return links[::-1]
