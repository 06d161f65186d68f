"""The dry run of a graph: its ranks in classes of equal shards, one trace a class, and the simulation of them all."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._trace.structure import flatten_call
from oneflow._trace.tracing import slices, trace_program
from oneflow.auto_parallel.cluster import Cluster
from oneflow.dryrun._report import Report
from oneflow.dryrun._stages import Stages
from oneflow.dryrun._world import as_rank, cluster_numbers, cluster_of, described

__all__ = ["dry_run"]


def dry_run(
    program: Any,
    *args: Any,
    cluster: Cluster | str | Path,
    slow: Mapping[int, float] | None = None,
    lost: tuple[int, float] | None = None,
    steps: int = 2,
    seconds: Mapping[str, float] | None = None,
    **kwargs: Any,
) -> Report:
    """Return what a step of a graph takes on a described cluster. Nothing runs.

    Every rank runs the plan that it would run, on the actors' own protocol. One rank of each class of ranks with equal
    shards is traced and compiled; the simulation runs them all.

    Args:
        program: an ``nn.Graph``; or a function that makes one and returns it with its inputs, which is called as rank 0
            of the cluster: ``placement.all("cpu")`` has a rank for each of its devices, and large tensors hold no
            memory. A graph over global tensors is made inside :func:`described`.
        args: the inputs of the graph, or the arguments of the function, and ``kwargs``.
        cluster: a ``Cluster``, the name of one that the package describes, or a toml file.
        slow: ranks that take so many times as long for their own work.
        lost: a rank, and the second from which on it does nothing.
        steps: the number of steps that are simulated; the times are those of the last.
        seconds: measured times of instructions by their signatures, in place of what the description says.

    Raises:
        ValueError: the job does not fit the cluster.
        TypeError: the program is neither a graph nor a function that returns one.

    Example::

        >>> class Step(oneflow.nn.Graph):
        ...     def __init__(self, model):
        ...         super().__init__()
        ...         self.model = model
        ...         self.add_optimizer(oneflow.optim.SGD(model.parameters(), lr=0.1))
        ...     def build(self, x):
        ...         loss = self.model(x).square().mean()
        ...         loss.backward()
        ...         return loss
        >>> def job():
        ...     place = oneflow.placement.all("cpu")
        ...     model = oneflow.nn.Linear(64, 64).to_global(place, oneflow.sbp.broadcast)
        ...     return Step(model), oneflow.ones(512, 64, placement=place, sbp=oneflow.sbp.split(0))
        >>> report = oneflow.dryrun.dry_run(job, cluster="8xh100")
        >>> report.n_ranks, report.ranks[0]["sent"] == 2 * 7 * (64 * 64 + 64) * 4 // 8
        (8, True)
    """
    cluster = cluster_of(cluster)
    options = {"slow": sorted((slow or {}).items()), "lost": lost, "steps": steps}
    if isinstance(program, oneflow.nn.Graph):
        return _run(program, args, kwargs, cluster, options, dict(seconds or {}))
    if not callable(program):
        raise TypeError(f"dry_run(): expected an nn.Graph or a function that makes one, got {type(program).__name__}")
    with described(cluster):
        made = program(*args, **kwargs)
        graph, *inputs = made if isinstance(made, (tuple, list)) else (made,)
        if not isinstance(graph, oneflow.nn.Graph):
            raise TypeError(
                f"dry_run(): the function must return an nn.Graph and its inputs, got {type(graph).__name__}"
            )
        return _run(graph, tuple(inputs), {}, cluster, options, dict(seconds or {}))


def _run(
    graph: Any, args: Any, kwargs: Any, cluster: Cluster, options: dict[str, Any], seconds: dict[str, float]
) -> Report:
    return Plans(graph, args, kwargs, cluster).run(cluster, options, seconds)


class Plans:
    """The plans of all ranks of a graph, one for each class of ranks with equal shards, for many simulations.

    With ``share_stages`` each trace runs its rank's pipeline stages alone, once all have been traced.
    """

    def __init__(self, graph: Any, args: Any, kwargs: Any, cluster: Cluster, share_stages: bool = True) -> None:
        start = time.perf_counter()
        tensors: list[Tensor] = []
        flatten_call(args, kwargs, tensors)
        for optimizer in graph._stepping():
            optimizer.prepare()
        self.n = oneflow.distributed.get_world_size()
        if self.n > cluster.n_devices:
            raise ValueError(
                f"dry_run(): a job of {self.n} ranks on {cluster.name}, which has {cluster.n_devices} devices"
            )
        zero = slices(graph, moves=False)
        held = _held(graph, tensors)
        self.classes = _classes(held, self.n)
        here = oneflow.distributed.get_rank()
        self.compiled, self.tracing = [], 0.0
        stages = Stages(graph if share_stages else None)
        for ranks in self.classes:
            with _seen_by(ranks[0], self.n, held if ranks[0] != here else []), stages.of_rank(ranks[0]):
                program, *took = trace_program(graph, args, kwargs, tensors, zero)
                self.tracing += sum(took)
                self.compiled.append(program.compiled)
        self.name = graph._name
        offload = graph.config._offload
        self.offloaded: tuple[list[str], int, bool] = ([], 0, False)
        if offload is not None:
            window = 0 if offload.on_host else offload.window
            self.offloaded = (offload.names(graph), window, offload.on_host)
        self.kinds = {name: "buffers" for name, _ in graph._parameters()}
        for name, module in graph._modules.items():
            self.kinds.update((f"{name}.{child}", "parameters") for child, _ in module.named_parameters())
        self.prepared = time.perf_counter() - start - self.tracing

    def run(self, cluster: Cluster, options: dict[str, Any], seconds: dict[str, float]) -> Report:
        """Simulate the plans on a cluster."""
        start = time.perf_counter()
        simulation = _oneflow._Simulation(self.compiled, cluster_numbers(cluster), seconds, self.offloaded)
        of_rank = [0] * self.n
        for k, ranks in enumerate(self.classes):
            for rank in ranks:
                of_rank[rank] = k
        watch = sorted({ranks[0] for ranks in self.classes} | {rank for rank, _ in options["slow"]})[:64]
        found = simulation.run(of_rank, {**options, "watch": watch})
        took = self.prepared + time.perf_counter() - start
        times = {"trace_seconds": self.tracing, "simulate_seconds": took}
        programs = [{**p, "on_host": self.offloaded[2]} for p in simulation.programs()]
        return Report.of(self.name, cluster, self.classes, programs, found, self.kinds, times)


# ---- ranks


def _held(graph: Any, tensors: list[Tensor]) -> list[Tensor]:
    """Every global tensor that the program of a rank depends on."""
    found: list[Tensor] = [t for _, t in graph._parameters()]
    for optimizer in graph._stepping():
        found += [p for group in optimizer.param_groups for p in group["params"]]
        found += [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
    return list({id(t): t for t in [*found, *tensors] if t.is_global}.values())


def _classes(held: Iterable[Tensor], n: int) -> list[list[int]]:
    """Ranks that hold shards of the same shapes, in groups: they run the same program."""
    keys: list[list[Any]] = [[] for _ in range(n)]
    for placement, sbp, shape in dict.fromkeys((t.placement, tuple(t.sbp), tuple(t.shape)) for t in held):
        mesh = placement.ranks
        for place, rank in _places(mesh):
            sizes = list(shape)
            for axis, s in enumerate(sbp):
                if s.dim is not None:
                    whole, parts = sizes[s.dim], mesh.shape[axis]
                    sizes[s.dim] = whole // parts + (place[axis] < whole % parts)
            keys[rank].append((placement, sbp, shape, tuple(sizes)))
    groups: dict[Any, list[int]] = {}
    numbers: dict[Any, int] = {}
    for rank in range(n):
        groups.setdefault(tuple([numbers.setdefault(key, len(numbers)) for key in keys[rank]]), []).append(rank)
    return list(groups.values())


def _places(mesh: Any) -> Iterator[tuple[tuple[int, ...], int]]:
    """The coordinates of each rank of a mesh."""
    shape = tuple(mesh.shape)
    for i, rank in enumerate(mesh.flatten().tolist()):
        place = []
        for size in reversed(shape):
            place.append(i % size)
            i //= size
        yield tuple(reversed(place)), rank


@contextlib.contextmanager
def _seen_by(rank: int, n: int, held: list[Tensor]) -> Iterator[None]:
    """Inside, this thread is another rank of the job, and tensors have the shards that it would hold."""
    if n == 1:
        yield
        return
    with as_rank(rank, n):
        before = [t.data for t in held]
        try:
            for t in held:
                made: Any = oneflow.empty
                t.data = made(tuple(t.shape), dtype=t.dtype, placement=t.placement, sbp=list(t.sbp))
            yield
        finally:
            for t, data in zip(held, before, strict=True):
                t.data = data
