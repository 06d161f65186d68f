"""Counts of collectives under PyTorch's names."""

from __future__ import annotations

from typing import Any

import oneflow
import oneflow.distributed as dist
import pytest
from oneflow.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from oneflow.distributed.tensor.debug import CommDebugMode


def test_each_redistribution_is_one_collective_of_its_kind() -> None:
    def rank() -> Any:
        mesh = dist.init_device_mesh("cpu", (4,))
        counts = CommDebugMode()
        seen = []
        for before, after in (
            ([Shard(0)], [Replicate()]),
            ([Replicate()], [Shard(1)]),
            ([Shard(0)], [Shard(1)]),
            ([Shard(0)], [Shard(0)]),
            ([Partial()], [Replicate()]),
            ([Partial()], [Shard(0)]),
        ):
            x = DTensor.from_local(oneflow.ones(4, 8), mesh, before)
            with counts:
                assert counts.get_total_counts() == 0
                x.redistribute(mesh, after)
                inside = counts.get_comm_counts()
            assert inside == counts.get_comm_counts()
            seen.append((counts.get_total_counts(), [op.__name__ for op in counts.get_comm_counts()]))
        return seen

    expected = [
        (1, ["all_gather_into_tensor"]),
        (0, []),
        (1, ["all_to_all_single"]),
        (0, []),
        (1, ["all_reduce"]),
        (1, ["reduce_scatter_tensor"]),
    ]
    assert oneflow.testing.run_ranks(4, rank) == [expected] * 4


def test_a_gradient_counts_and_each_block_starts_anew() -> None:
    def rank() -> Any:
        mesh = dist.init_device_mesh("cpu", (2,))
        names = oneflow.ops.c10d_functional
        x = distribute_tensor(oneflow.ones(4, 3), mesh, [Shard(0)])
        w = distribute_tensor(oneflow.ones(3, 2), mesh, [Replicate()]).requires_grad_()
        with CommDebugMode() as counts:
            y = (x @ w).sum().full_tensor()
        forward = counts.get_comm_counts()[names.all_reduce], counts.get_comm_counts()[names.all_gather_into_tensor]
        dist.barrier()
        with counts:
            y.backward()
            total = w.grad.full_tensor()
        return forward, counts.get_total_counts(), counts.comm_counts[names.all_reduce], total.tolist()

    for forward, total, reduced, grad in oneflow.testing.run_ranks(2, rank):
        assert forward == (1, 0) and total == reduced == 1 and grad == [[4.0, 4.0]] * 3
    with pytest.raises(NotImplementedError, match="op c10d_functional::all_reduce has no kernel"):
        oneflow.ops.c10d_functional.all_reduce(oneflow.ones(1))
