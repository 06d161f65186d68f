"""Ranks as actors of a Ray cluster: ``ray.run(train, num_workers=8)``.

Ray places the actors, on one host or many, and says when one or its node is lost; the ranks talk over the package's
own connections, with a secret that the driver makes. After a failure all ranks can start anew, where resources are
left, and ``train`` goes on from the checkpoint that it finds. Ray is no dependency of this package (``pip install
ray``).
"""

from __future__ import annotations

import importlib
import os
import secrets
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["run"]


class _Place(NamedTuple):
    """Where an actor runs."""

    node: str
    address: str
    devices: str


class _Worker:
    """An actor: it holds one rank."""

    def place(self) -> _Place:
        ray = _ray()
        context = ray.get_runtime_context()
        return _Place(context.get_node_id(), ray.util.get_node_ip_address(), os.environ.get("CUDA_VISIBLE_DEVICES", ""))

    def free_port(self) -> int:
        with socket.socket() as probe:
            probe.bind(("", 0))
            return int(probe.getsockname()[1])

    def run(self, environment: dict[str, str], fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        os.environ.update(environment)
        distributed = importlib.import_module("oneflow.distributed")
        try:
            return fn(*args, **kwargs)
        finally:
            if distributed.is_initialized():
                distributed.destroy_process_group()


def run(
    fn: Callable[..., Any],
    *args: Any,
    num_workers: int = 1,
    resources_per_worker: Mapping[str, float] | None = None,
    placement_strategy: str = "PACK",
    max_restarts: int = 0,
    environment: Mapping[str, str] | None = None,
    timeout: float = 300.0,
    **kwargs: Any,
) -> list[Any]:
    """Call ``fn(*args, **kwargs)`` on each of ``num_workers`` ranks of a Ray cluster.

    Connects to the cluster that ``RAY_ADDRESS`` names, or starts one on this machine, unless ``ray.init`` has been
    called. Inside ``fn`` ranks are found as under other launchers; ``TORCHELASTIC_RESTART_COUNT`` says how often all
    have started anew. Ranks of a node have neighbouring numbers and see its GPUs in the order of their local ranks.

    Args:
        fn: what a rank runs; Ray pickles it, its arguments and its result.
        num_workers: the number of ranks.
        resources_per_worker: of each rank, one processor by default: ``{"CPU": 4, "GPU": 1}``.
        placement_strategy: Ray's: "PACK", "SPREAD", "STRICT_PACK" or "STRICT_SPREAD".
        max_restarts: how often all ranks start anew after one has failed or its node is lost.
        environment: more variables of the ranks.
        timeout: seconds to wait for resources.

    Returns:
        The results in the order of ranks.

    Raises:
        ImportError: Ray is not installed.
        TimeoutError: the cluster has not had the resources in time.
        RuntimeError: a rank has failed once more than ``max_restarts``; names the rank, whose exception is the cause.

    Example::

        >>> def train():
        ...     return oneflow.distributed.get_rank()
        >>> oneflow.distributed.ray.run(train, num_workers=2)  # doctest: +SKIP
        [0, 1]
    """
    if num_workers < 1 or max_restarts < 0:
        raise ValueError(
            f"ray.run: num_workers={num_workers} must be positive, max_restarts={max_restarts} not negative"
        )
    resources = dict(resources_per_worker or {"CPU": 1})
    if not resources or any(amount < 0 for amount in resources.values()):
        raise ValueError(f"ray.run: resources_per_worker must name amounts, got {resources}")
    ray = _ray()
    if not ray.is_initialized():
        ray.init()
    for restart in range(max_restarts + 1):
        group = ray.util.placement_group([resources] * num_workers, strategy=placement_strategy)
        workers: list[Any] = []
        try:
            if not group.wait(timeout):
                raise TimeoutError(
                    f"ray.run: the cluster had no room for {num_workers} ranks of {resources} ({placement_strategy}) "
                    f"within {timeout} s; it has {ray.cluster_resources()}"
                )
            workers += _actors(ray, group, resources, num_workers)
            ordered, variables = _ranks(workers, ray.get([worker.place.remote() for worker in workers]))
            shared = {
                **(environment or {}),
                "MASTER_PORT": str(ray.get(ordered[0].free_port.remote())),
                "ONEFLOW_JOB_SECRET": secrets.token_hex(32),
                "TORCHELASTIC_RESTART_COUNT": str(restart),
                "TORCHELASTIC_MAX_RESTARTS": str(max_restarts),
            }
            calls = [
                worker.run.remote({**shared, **own}, fn, args, kwargs)
                for worker, own in zip(ordered, variables, strict=True)
            ]
            return _results(ray, calls)
        except ray.exceptions.RayError as error:
            # Before the ranks ran, a node was lost; _results has named a rank otherwise.
            failure = RuntimeError(f"ray.run: an actor was lost before its rank began: {error}")
            failure.__cause__ = error
        except _RankFailed as found:
            failure = RuntimeError(str(found))
            failure.__cause__ = found.__cause__
        finally:
            for worker in workers:
                ray.kill(worker)
            ray.util.remove_placement_group(group)
        if restart == max_restarts:
            raise failure
        sys.stderr.write(f"oneflow.distributed.ray: {failure}; start {restart + 2} of all\n")
    raise AssertionError("unreachable")


class _RankFailed(Exception):
    pass


# Seconds in which the cluster tells that an actor was lost, after another rank has noticed it.
_OTHERS = 5.0


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise ImportError("oneflow.distributed.ray needs the package ray (pip install ray)") from None


def _actors(ray: Any, group: Any, resources: dict[str, float], n: int) -> list[Any]:
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    others = {name: amount for name, amount in resources.items() if name not in ("CPU", "GPU")}
    made = []
    for index in range(n):
        where = strategies.PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=index)
        options = {
            "num_cpus": resources.get("CPU", 0),
            "num_gpus": resources.get("GPU", 0),
            "resources": others,
            "scheduling_strategy": where,
            "max_restarts": 0,
        }
        made.append(ray.remote(_Worker).options(**options).remote())
    return made


def _ranks(workers: Sequence[Any], places: Sequence[_Place]) -> tuple[list[Any], list[dict[str, str]]]:
    """The actors in the order of ranks, those of a node together, and the variables of each."""
    nodes = list(dict.fromkeys(place.node for place in places))
    order = sorted(range(len(workers)), key=lambda i: nodes.index(places[i].node))
    variables = []
    for rank, index in enumerate(order):
        place = places[index]
        local = [i for i in order if places[i].node == place.node]
        own = {
            "RANK": rank,
            "WORLD_SIZE": len(workers),
            "LOCAL_RANK": local.index(index),
            "LOCAL_WORLD_SIZE": len(local),
            "GROUP_RANK": nodes.index(place.node),
            "GROUP_WORLD_SIZE": len(nodes),
            "ROLE_NAME": "default",
            "ROLE_RANK": rank,
            "ROLE_WORLD_SIZE": len(workers),
            "MASTER_ADDR": places[order[0]].address,
        }
        if place.devices:
            # Each actor sees its own; a rank chooses by its local rank among those of the node.
            own["CUDA_VISIBLE_DEVICES"] = ",".join(dict.fromkeys(",".join(places[i].devices for i in local).split(",")))
        variables.append({name: str(value) for name, value in own.items()})
    return [workers[i] for i in order], variables


def _results(ray: Any, calls: list[Any]) -> list[Any]:
    """The results of all ranks. A failure of one makes others fail, so a lost actor is named before an exception."""
    left = {call: rank for rank, call in enumerate(calls)}
    results: list[Any] = [None] * len(calls)
    failed: _RankFailed | None = None
    while left:
        done, _ = ray.wait(list(left), num_returns=1, timeout=None if failed is None else _OTHERS)
        if not done:
            break
        for call in done:
            rank = left.pop(call)
            try:
                results[rank] = ray.get(call)
            except ray.exceptions.RayTaskError as error:
                if failed is None:
                    cause = error.cause if isinstance(error.cause, BaseException) else error
                    failed = _RankFailed(f"ray.run: rank {rank} failed: {type(cause).__name__}: {cause}")
                    failed.__cause__ = error
            except ray.exceptions.RayError as error:
                raise _RankFailed(f"ray.run: rank {rank} was lost: {error}") from error
    if failed is not None:
        raise failed
    return results
