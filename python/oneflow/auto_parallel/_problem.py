"""A traced step whose layouts are searched: what may be laid out how, and what each choice costs.

Parameters whose names differ in numbers alone and whose shapes are equal (those of repeated layers) have one layout.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator
from typing import Any

from oneflow import Tensor
from oneflow._trace.structure import flatten_call
from oneflow._trace.tracing import slices, trace_program
from oneflow.auto_parallel.cluster import Cluster, Link
from oneflow.nn.graph import GraphModule
from oneflow.nn.modules import ModuleList, Sequential

__all__ = ["WHOLE", "Calls", "Layout", "Problem", "Way", "blocks_of", "links_of", "words_of"]

# A layout: for each axis the dimension that it splits, or -1.
Layout = tuple[int, ...]
WHOLE = -1
# By the number of a node: the layouts of its inputs and results, in words.
Calls = dict[int, tuple[list[list[str]], list[list[str]]]]
# Parameters of fewer elements stay whole under ZeRO: the default of `enable_zero`.
ZERO_LEAST = 1024


class Way:
    """How a step is traced: the modules whose forward runs again in the backward, and micro-batches.

    Inside :meth:`set`, the graph is set up so.
    """

    def __init__(self, recompute: list[str], micro_batches: int | None) -> None:
        self.recompute, self.micro_batches = recompute, micro_batches

    @contextlib.contextmanager
    def set(self, graph: Any) -> Iterator[None]:
        """Let a graph be traced like this."""
        marked = [GraphModule(module) for name, module in modules_of(graph) if name in self.recompute]
        before = [m.activation_checkpointing for m in marked]
        micro = graph.config._micro_batches
        try:
            for module in marked:
                module.activation_checkpointing = True
            if self.micro_batches is not None:
                graph.config._micro_batches = self.micro_batches
            yield
        finally:
            for module, was in zip(marked, before, strict=True):
                module.activation_checkpointing = was
            if graph.config._micro_batches != micro:
                graph.config._micro_batches = micro


def modules_of(graph: Any) -> Iterator[tuple[str, Any]]:
    """The modules of a graph with their names, as parameters have them."""
    for name, top in graph._modules.items():
        for child, module in top.named_modules():
            yield f"{name}.{child}".rstrip("."), module


def blocks_of(graph: Any) -> list[str]:
    """The outermost repeated blocks: members of one class in a list of modules."""
    found: list[str] = []
    for name, module in modules_of(graph):
        if isinstance(module, (ModuleList, Sequential)) and not any(name.startswith(f"{b}.") for b in found):
            kinds = [type(child) for child in module.children()]
            alike = [n for n, child in module.named_children() if kinds.count(type(child)) > 1 and child._modules]
            found += [f"{name}.{n}" for n in alike]
    return found


class Problem:
    """A traced step, and groups of tensors that share a layout.

    Args:
        graph: an ``nn.Graph``.
        args: its inputs, and ``kwargs``.
        fixed: layouts that are given, by the name of a parameter or ``"input 0"``; those are not searched.
    """

    def __init__(
        self, graph: Any, args: tuple[Any, ...], kwargs: dict[str, Any], fixed: dict[str, Layout] | None = None
    ) -> None:
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
        given = fixed or {}
        for value, name, sizes, dtype, _, _ in self._layouts.variables():
            if name in names:
                key = (re.sub(r"\d+", "#", name), tuple(sizes), dtype, given.get(name))
                groups.setdefault(key, []).append((value, name))
        # Inputs of one length are batches that are cut alike.
        inputs: dict[Any, list[tuple[int, str]]] = {}
        self._inputs = self._layouts.inputs()
        for i, (value, sizes) in enumerate(self._inputs):
            key = ("input", tuple(sizes[:1]), None, given.get(f"input {i}"))
            inputs.setdefault(key, []).append((value, f"input {i}"))
        self.members = [*inputs.values(), *groups.values()]
        self.n_inputs = len(inputs)
        # What may be split: of inputs the first dimension.
        self._sizes = [list(key[1]) for key in [*inputs, *groups]]
        self._fixed = [key[3] for key in [*inputs, *groups]]
        self.calls = {at: (key, number, where) for at, key, number, where in self._layouts.calls()}
        self.input_sizes = [list(sizes) for _, sizes in self._inputs]

    # ---- costs

    def estimate(
        self,
        mesh: tuple[int, ...],
        cluster: Cluster,
        state: list[Layout],
        calls: Calls | None = None,
        zero: int = 0,
    ) -> dict[str, Any]:
        """Return what a step costs with a layout for each group, for some calls, and with a stage of ZeRO."""
        layouts = {value: list(s) for members, s in zip(self.members, state, strict=True) for value, _ in members}
        slices = (zero, ZERO_LEAST) if zero else None
        return self._layouts.estimate(layouts, _hardware(mesh, cluster), calls, slices)

    def solve(
        self, mesh: tuple[int, ...], cluster: Cluster, start: list[Layout], memory_weight: float = 0.0
    ) -> tuple[list[Layout], Calls, bool]:
        """Return the layouts of groups and calls with the shortest step, and whether nothing can be better.

        ``memory_weight`` is what a byte held by a device is worth, in seconds.
        """
        options = [self.options(g, mesh) for g in range(len(self.members))]
        groups = [
            ([value for value, _ in members], [list(o) for o in own])
            for members, own in zip(self.members, options, strict=True)
        ]
        first = [own.index(s) for own, s in zip(options, start, strict=True)]
        at, calls, optimal = self._layouts.solve(groups, first, _hardware(mesh, cluster), memory_weight)
        return [own[i] for own, i in zip(options, at, strict=True)], dict(calls), optimal

    def offers(self, mesh: tuple[int, ...], cluster: Cluster, node: int) -> list[Any]:
        """Return the layouts that the op of a node offers."""
        return self._layouts.offers(node, _hardware(mesh, cluster))

    def options(self, group: int, mesh: tuple[int, ...]) -> list[Layout]:
        """Return the layouts of a group whose splits divide: of inputs along the first dimension alone."""
        sizes = self._sizes[group]
        if (given := self._fixed[group]) is not None:
            return [given]
        found = []
        for layout in itertools.product(range(WHOLE, len(sizes)), repeat=len(mesh)):
            parts = [1] * len(sizes)
            for axis, dim in enumerate(layout):
                if dim != WHOLE:
                    parts[dim] *= mesh[axis]
            if all(size % n == 0 and size >= n for size, n in zip(sizes, parts, strict=True)):
                found.append(layout)
        return found

    def named(self, state: list[Layout], n_axes: int) -> tuple[dict[str, tuple[str, ...]], list[tuple[str, ...]]]:
        """Return the layouts of a state in words: of parameters by name, and of inputs in order."""
        layouts = dict.fromkeys(self.names, ("B",) * n_axes)
        by_value: dict[int, tuple[str, ...]] = {}
        for members, layout in zip(self.members, state, strict=True):
            layouts.update((name, words_of(layout)) for _, name in members if name in layouts)
            by_value.update((value, words_of(layout)) for value, _ in members)
        return layouts, [by_value[value] for value, _ in self._inputs]


def words_of(layout: Layout) -> tuple[str, ...]:
    """A layout in words."""
    return tuple("B" if dim == WHOLE else f"S({dim})" for dim in layout)


def _hardware(mesh: tuple[int, ...], cluster: Cluster) -> dict[str, Any]:
    links = links_of(mesh, cluster)
    return {
        "hierarchy": list(mesh),
        "latency": [link.latency for link in links],
        "bandwidth": [float(link.bandwidth) for link in links],
        "flops": float(cluster.flops),
        "memory_bandwidth": float(cluster.memory_bandwidth),
    }


def links_of(mesh: tuple[int, ...], cluster: Cluster) -> list[Link]:
    """The slowest link that each axis crosses; ranks of a host follow each other, the last axis first."""
    links, reach = [], 1
    for n in reversed(mesh):
        reach *= n
        inside = reach <= cluster.devices_per_host and cluster.devices_per_host % reach == 0
        links.append(cluster.inside if inside else cluster.between)
    return links[::-1]
