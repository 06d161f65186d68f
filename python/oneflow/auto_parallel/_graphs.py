"""``GraphConfig.enable_auto_parallel``: the first call of a graph plans its layouts, and all calls follow the plan."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import oneflow
from oneflow import Tensor, sbp
from oneflow._trace.structure import flatten, unflatten
from oneflow.auto_parallel._plan import Plan
from oneflow.auto_parallel._problem import WHOLE, Layout
from oneflow.auto_parallel._search import find
from oneflow.auto_parallel.cluster import Cluster

__all__ = ["laid_out"]


def laid_out(graph: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return a call's arguments in the layouts of the graph's plan, which the first call makes on all ranks."""
    if oneflow.distributed.get_world_size() == 1:
        return args, kwargs
    if graph._plan is None:
        graph._plan = _plan(graph, args, kwargs)
    plan, device_type = graph._plan
    tensors: list[Tensor] = []
    structure = flatten((args, kwargs), tensors, "input")
    if len(tensors) != len(plan.inputs):
        raise ValueError(f"{graph._name}: its plan is for {len(plan.inputs)} tensors, and the call has {len(tensors)}")
    every = [sbp.broadcast] * len(plan.mesh)
    placed = []
    for i, tensor in enumerate(tensors):
        place, layout = plan._input(i, device_type)
        whole = tensor if tensor.is_global else tensor.to_global(place, every)
        placed.append(whole.to_global(place, layout))
    args, kwargs = unflatten(structure, iter(placed))
    return args, kwargs


def _plan(graph: Any, args: Any, kwargs: Any) -> tuple[Plan, str]:
    """Plan on rank 0, and lay the graph out on all ranks."""
    options = graph.config._auto_parallel
    tensors: list[Tensor] = []
    structure = flatten((args, kwargs), tensors, "input")
    named = {**dict(graph._parameters()), **{f"input {i}": t for i, t in enumerate(tensors)}}
    placements = {t.placement for t in named.values() if t.is_global}
    if len(placements) > 1:
        raise NotImplementedError(
            f"{graph._name}: enable_auto_parallel() searches over one placement, and tensors are on {len(placements)}: "
            "let it choose the stages of local modules, or set them with set_stage() and without it"
        )
    n = oneflow.distributed.get_world_size()
    placement = next(iter(placements), None)
    if placement is not None and sorted(placement.ranks.flatten().tolist()) != list(range(n)):
        raise NotImplementedError(f"{graph._name}: enable_auto_parallel() uses all {n} ranks, and {placement} does not")
    device_type = placement.type if placement is not None else next(iter(named.values())).device.type
    # Layouts that the user gave are kept, unless they are to be ignored.
    fixed = {} if options["ignore"] else {k: _given(graph, k, t) for k, t in named.items() if t.is_global}
    # A placement that is given is no pipeline's.
    stages = options["stages"] if placement is None else [1]
    meshes = [tuple(placement.ranks.shape)] if placement is not None and fixed else None
    whole = [_whole(t) for t in tensors]
    for tensor in dict(graph._parameters()).values():
        tensor.data = _whole(tensor.detach())
    for optimizer in graph._stepping():
        for state in optimizer.state.values():
            state.update((k, _whole(v)) for k, v in state.items() if isinstance(v, Tensor))
    found: list[Any] = [None, None]
    if oneflow.distributed.get_rank() == 0:
        try:
            local_args, local_kwargs = unflatten(structure, iter(whole))
            ways = (options["zero"], options["recompute"], options["micro_batches"])
            cluster = _priced(_cluster(options["cluster"], n, device_type), options)
            given = (graph, local_args, local_kwargs, cluster, options["memory"], meshes)
            plan = find(*given, *ways, fixed, stages, options["schedules"])
            found[0] = json.dumps(dataclasses.asdict(plan))
        except Exception as error:
            found[1] = error
    oneflow.distributed.broadcast_object_list(found, 0)
    if found[1] is not None:
        raise found[1]
    plan = Plan.from_dict(json.loads(found[0]))
    plan.apply(graph, device_type)
    return plan, device_type


def _given(graph: Any, name: str, tensor: Tensor) -> Layout:
    if any(s.dim is None and s != sbp.broadcast for s in tensor.sbp):
        raise NotImplementedError(
            f"{graph._name}: {name} is a partial sum ({tensor.sbp}), which enable_auto_parallel() does not keep: bring "
            "it to another layout, or call enable_auto_parallel_ignore_user_sbp_config()"
        )
    return tuple(WHOLE if s.dim is None else s.dim for s in tensor.sbp)


def _whole(tensor: Tensor) -> Tensor:
    """All of a tensor, as a local one."""
    if not tensor.is_global:
        return tensor
    return tensor.to_global(sbp=[sbp.broadcast] * len(tensor.sbp)).to_local()


def _cluster(given: Any, n: int, device_type: str) -> Cluster:
    if given is not None:
        cluster = given if isinstance(given, Cluster) else Cluster.load(given)
        if cluster.n_devices != n:
            raise ValueError(
                f"enable_auto_parallel(): {cluster.name} has {cluster.n_devices} devices, and the job {n} ranks"
            )
        return cluster
    like = Cluster.load("4xcpu" if device_type == "cpu" else "128xh100")
    hosts = oneflow.env.get_node_size()
    hosts = hosts if n % hosts == 0 else n
    return dataclasses.replace(like, name=f"{n} ranks", hosts=hosts, devices_per_host=n // hosts)


def _priced(cluster: Cluster, options: dict[str, Any]) -> Cluster:
    """A cluster whose prices are weighed as the options say."""
    ratio, wait = options["ratio"], options["wait"]
    links = [
        dataclasses.replace(link, latency=link.latency + wait / link.bandwidth)
        for link in (cluster.inside, cluster.between)
    ]
    return dataclasses.replace(
        cluster,
        flops=cluster.flops / ratio,
        memory_bandwidth=cluster.memory_bandwidth / ratio,
        inside=links[0],
        between=links[1],
    )
