"""A traced step whose layouts are searched: what may be laid out how, and what each choice costs.

The trace is that of one micro-batch; gradients are reduced and parameters updated once for all of them. Units, of which
pipeline stages are made, are marked in it (``graph/src/units.rs`` has what they cost).

Parameters whose names differ in numbers alone and whose shapes are equal (those of repeated layers) have one layout. Of
equal blocks that follow each other one stands for all (``graph/src/repeats.rs``): costs and searches are those of the
small graph, and :meth:`Problem.whole` is the problem without that.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

from oneflow import Tensor
from oneflow._trace.offload import LEAST
from oneflow._trace.pipeline import watch_backward
from oneflow._trace.structure import flatten, flatten_call, unflatten
from oneflow._trace.tracing import trace_program
from oneflow.auto_parallel._reach import reaches_of
from oneflow.auto_parallel.cluster import Cluster
from oneflow.nn.graph import GraphModule
from oneflow.nn.modules import ModuleList, Sequential

__all__ = ["WHOLE", "Calls", "Layout", "Problem", "Way", "blocks_of", "units_of", "words_of"]

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
            # The trace is that of one.
            if micro != 1:
                graph.config._micro_batches = 1
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


def units_of(graph: Any) -> dict[int, str]:
    """The modules that pipeline stages are made of, by id: members of outermost lists, and the modules beside those."""
    found: dict[int, str] = {}
    for name, top in graph._modules.items():
        for unit_name, module in _units(name, top):
            found.setdefault(id(module), unit_name)
    return found


def _units(name: str, module: Any) -> Iterator[tuple[str, Any]]:
    """The units at a module and below it."""
    is_list = isinstance(module, (ModuleList, Sequential))
    if not is_list and not any(isinstance(m, (ModuleList, Sequential)) for m in module.modules()):
        yield name, module
        return
    for child_name, child in module.named_children():
        if is_list and not isinstance(child, (ModuleList, Sequential)):
            yield f"{name}.{child_name}", child
        else:
            yield from _units(f"{name}.{child_name}", child)


class Problem:
    """A traced step, and groups of tensors that share a layout.

    Args:
        graph: an ``nn.Graph``.
        args: its inputs, and ``kwargs``.
        fixed: layouts that are given, by the name of a parameter or ``"input 0"``; those are not searched.
        micro_batches: how many a step has.
        by_class: one of equal blocks stands for all.

    Raises:
        ValueError: the first dimension of an input does not divide.
    """

    def __init__(
        self,
        graph: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        fixed: dict[str, Layout] | None = None,
        micro_batches: int = 1,
        by_class: bool = True,
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
        self.input_sizes = [list(t.shape) for t in tensors]
        self.micro_batches = micro_batches
        self.units: list[str] = []
        if micro_batches > 1:
            tensors = [_part(t, micro_batches) for t in tensors]
            args, kwargs = unflatten(flatten((args, kwargs), [], "input"), iter(tensors))
        self._offload = graph.config._offload
        with _unset(graph.config, "_zero"), _unset(graph.config, "_schedule"), _unset(graph.config, "_offload"):
            self._whole = trace_program(
                graph,
                args,
                kwargs,
                tensors,
                None,
                lambda trace, out: trace.finish_layouts(out),
                watch=self._mark(graph),
            )
        for optimizer, before in stepping:
            # States that were made for the trace have no layout yet.
            for param in [p for p in optimizer.state if not any(p is known for known in before)]:
                del optimizer.state[param]
        self.names = list(names)
        # The variables that are offloaded, by value.
        self._elsewhere: list[int] = []
        if self._offload is not None:
            kinds = {True: self._offload.optimizer_states, False: self._offload.parameters}
            found = [(value, name) for value, name, *_ in self._whole.variables()]
            self._elsewhere = [v for v, name in found if kinds[name.startswith("optimizer_")]]
        groups: dict[Any, list[tuple[int, str]]] = {}
        given = fixed or {}
        for value, name, sizes, dtype, _, _ in self._whole.variables():
            if name in names:
                key = (re.sub(r"\d+", "#", name), tuple(sizes), dtype, given.get(name))
                groups.setdefault(key, []).append((value, name))
        # Inputs of one length are batches that are cut alike.
        inputs: dict[Any, list[tuple[int, str]]] = {}
        self._inputs = self._whole.inputs()
        for i, (value, sizes) in enumerate(self._inputs):
            key = ("input", tuple(sizes[:1]), None, given.get(f"input {i}"))
            inputs.setdefault(key, []).append((value, f"input {i}"))
        self.members = [*inputs.values(), *groups.values()]
        self.n_inputs = len(inputs)
        # What may be split: of inputs the first dimension.
        self._sizes = [list(key[1]) for key in [*inputs, *groups]]
        self._fixed = [key[3] for key in [*inputs, *groups]]
        numbers = {value: g for g, members in enumerate(self.members) for value, _ in members}
        folded = self._whole.folded(numbers) if by_class else None
        self._use(self._whole if folded is None else folded)

    def _use(self, layouts: Any) -> None:
        self._layouts = layouts
        self.calls = {at: (key, number, where) for at, key, number, where in layouts.calls()}
        self.n_nodes: int = layouts.n_nodes()

    def whole(self) -> Problem:
        """Return the problem in which each block stands for itself."""
        problem = copy.copy(self)
        problem._use(self._whole)
        return problem

    def unfolded(
        self, mesh: tuple[int, ...], cluster: Cluster, state: list[Layout], calls: Calls
    ) -> tuple[Calls, dict[int, int]]:
        """Return the calls of the whole graph that go with those of this one, and which of these stands for each."""
        if self._layouts is self._whole:
            return calls, {at: at for at in calls}
        hardware = _hardware(mesh, cluster)
        found = dict(self._whole.unfolded(self._layouts, self._by_value(state), hardware, calls))
        stands = self._layouts.stands()
        return found, {at: stands[at] for at in found}

    def _mark(self, graph: Any) -> Any:
        """Mark the forwards and backwards of units in a trace."""
        names = units_of(graph)

        @contextlib.contextmanager
        def watch(trace: Any) -> Iterator[None]:
            modules = list({id(m): m for _, m in modules_of(graph) if id(m) in names}.values())
            before = [(m, m.__dict__.get("forward")) for m in modules]
            try:
                for module in modules:
                    module.__dict__["forward"] = self._marked(trace, names[id(module)], module.forward)
                yield
            finally:
                for module, forward in before:
                    module.__dict__.pop("forward", None)
                    if forward is not None:
                        module.__dict__["forward"] = forward

        return watch

    def _marked(self, trace: Any, name: str, forward: Any) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            if name in self.units:
                # Called twice: the second time its parameters hold the units between together.
                return forward(*args, **kwargs)
            unit = len(self.units)
            self.units.append(name)
            trace.section(2 * unit, False)
            result = forward(*args, **kwargs)
            watch_backward(result, 2 * unit, trace.section)
            trace.section(2 * unit + 1, False)
            return result

        return called

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
        slices = (zero, ZERO_LEAST) if zero else None
        return self._layouts.estimate(
            self._by_value(state),
            _hardware(mesh, cluster),
            calls,
            slices,
            self.micro_batches,
            self._offloaded(cluster),
        )

    def _offloaded(self, cluster: Cluster) -> tuple[list[int], float, float, bool, float] | None:
        """What lies elsewhere than on a device, and what a device takes to reach it."""
        if self._offload is None:
            return None
        if self._offload.on_host and cluster.host is not None:
            bandwidth = cluster.host.bandwidth / (cluster.devices_per_host if cluster.host.shared else 1)
        elif not self._offload.on_host and cluster.disk:
            bandwidth = cluster.disk
        else:
            where = "the host" if self._offload.on_host else "a disk"
            raise ValueError(
                f"auto_parallel.plan(): the graph offloads to {where}, and devices of {cluster.name} have no link to it"
            )
        options = (self._offload.on_host, float(self._offload.window))
        return (self._elsewhere, float(LEAST), float(bandwidth), *options)

    def stages(
        self,
        n_stages: int,
        mesh: tuple[int, ...],
        cluster: Cluster,
        memory: float,
        state: list[Layout],
        calls: Calls | None = None,
        zero: int = 0,
        starts: list[int] | None = None,
        shape: tuple[int, bool] = (1, False),
    ) -> dict[str, Any] | None:
        """Return where a pipeline of stages over meshes of this size is cut, and its costs; None if no cut is possible.

        Args:
            n_stages: their number, of all ranks of the pipeline.
            mesh: of the devices of one stage.
            memory: bytes that a device may hold; where no cut fits, that with the smallest peak is returned.
            starts: the numbers of the first units of stages, for the cost of a given cut.
            shape: the stages of each rank, and whether they have the form of a V (else ranks take turns).
        """
        size = math.prod(mesh)
        n_ranks = n_stages // shape[0]
        inside = n_ranks * size <= cluster.devices_per_host
        link = cluster.inside if inside else cluster.between
        # The ranks of a stage send at the same time, each to its own of the next one.
        bandwidth = link.bandwidth / (min(size, cluster.devices_per_host) if link.shared else 1)
        pipeline = (n_stages, n_ranks, shape[1], float(link.latency), float(bandwidth), float(memory))
        slices = (zero, ZERO_LEAST) if zero else None
        hardware = _hardware(mesh, cluster)
        layouts = self._by_value(state)
        elsewhere = self._offloaded(cluster)
        return self._layouts.stages(
            layouts, hardware, calls or {}, slices, self.micro_batches, pipeline, starts, elsewhere
        )

    def homes(self) -> tuple[dict[str, str], list[str]]:
        """Return the units that parameters lie with, by name, and those of the inputs."""
        homes = self._whole.homes()
        unit = {value: self.units[at] for value, at in homes.items() if at < len(self.units)}
        named = {name: unit[value] for members in self.members for value, name in members if value in unit}
        return named, [unit.get(value, self.units[0]) if self.units else "" for value, _ in self._inputs]

    def _by_value(self, state: list[Layout]) -> dict[int, list[int]]:
        return {value: list(s) for members, s in zip(self.members, state, strict=True) for value, _ in members}

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
        hardware = _hardware(mesh, cluster)
        at, calls, optimal = self._layouts.solve(groups, first, hardware, memory_weight, self.micro_batches)
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
                    # One device splits nothing.
                    parts[dim] *= mesh[axis] if mesh[axis] > 1 else sizes[dim] + 1
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


@contextlib.contextmanager
def _unset(config: Any, name: str) -> Iterator[None]:
    """Inside, a setting is not there."""
    before = getattr(config, name)
    if before is None:
        yield
        return
    setattr(config, name, None)
    try:
        yield
    finally:
        setattr(config, name, before)


def _part(tensor: Tensor, n: int) -> Tensor:
    if tensor.dim() == 0 or tensor.size(0) % n:
        raise ValueError(
            f"auto_parallel.plan(): {n} micro-batches need inputs whose first dimension is a multiple of {n}, got one "
            f"of shape {tuple(tensor.shape)}"
        )
    return tensor.narrow(0, 0, tensor.size(0) // n)


def words_of(layout: Layout) -> tuple[str, ...]:
    """A layout in words."""
    return tuple("B" if dim == WHOLE else f"S({dim})" for dim in layout)


@functools.lru_cache(maxsize=1024)
def _hardware(mesh: tuple[int, ...], cluster: Cluster) -> dict[str, Any]:
    reaches = reaches_of(mesh, cluster)
    return {
        "hierarchy": list(mesh),
        "latency": [reach.latency for reach in reaches],
        "bandwidth": [reach.ring for reach in reaches],
        "exchange": [reach.exchange for reach in reaches],
        "flops": float(cluster.flops),
        "memory_bandwidth": float(cluster.memory_bandwidth),
    }
