"""Sums of sparse tensors over ranks, and sparse gradients of embeddings under DistributedDataParallel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import oneflow
import oneflow.distributed as dist
import pytest
from distributed.twice import both
from oneflow.testing import run_ranks


def test_the_same_as_pytorch(tmp_path: Path) -> None:
    body = """
store = dist.FileStore(meeting, n)
group = dist.ProcessGroupGloo(store, rank, n)
def sparse(count, shift=0):
    at = [[(rank * 2 + i + shift) % 5 for i in range(count)], [i % 2 for i in range(count)]]
    values = torch.tensor([[float(rank + i), 1.0] for i in range(count)]).reshape(count, 2)
    return torch.sparse_coo_tensor(torch.tensor(at, dtype=torch.int64).reshape(2, count), values, (5, 2, 2))
for count in (0, 1, 4, rank, 2 * (rank == 1)):
    x, y, z = sparse(count), sparse(count), sparse(count, 1)
    group.allreduce([x]).wait()
    dist.all_reduce(y, group=group)
    w = sparse(count)
    group.allreduce([z, w]).wait()
    say(x.to_dense(), y.to_dense(), z.to_dense(), w.to_dense(), x.is_coalesced(), x._nnz())
for call in (
    lambda: group.allreduce([sparse(1), torch.zeros(5, 2, 2)]),
    lambda: group.allreduce([sparse(1), torch.sparse_coo_tensor([[0]], [1.0], (4,))]),
):
    try:
        call()
        say("nothing raised")
    except RuntimeError as error:
        say("layout" in str(error), "size" in str(error))

import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo", store=dist.PrefixStore("job", store), rank=rank, world_size=n)
for views in (False, True):
    layers = [nn.Embedding(6, 3, sparse=True), nn.EmbeddingBag(4, 3, mode="sum", sparse=True), nn.Linear(3, 2)]
    with torch.no_grad():
        for layer in layers:
            for p in layer.parameters():
                p.copy_(torch.arange(p.numel()).reshape(p.shape) / 7)
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = layers
        def forward(self, x):
            return self.c(self.a(x) + self.b(x % 4, torch.arange(len(x))))
    model = DDP(Model(), gradient_as_bucket_view=views)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.tensor([rank, step, rank + step])).square().sum().backward()
        grads = [p.grad for p in model.parameters()]
        say([g.to_dense().tolist() for g in grads], [g.is_sparse for g in grads])
        optimizer.step()
dist.destroy_process_group()
"""
    found = both(body, tmp_path, 3)
    for ours, theirs in zip(found["oneflow"], found["torch"], strict=True):
        assert _flat(ours) == pytest.approx(_flat(theirs), rel=1e-5, abs=1e-6)


def _flat(said: Any) -> list[float]:
    return [x for item in said for x in _flat(item)] if isinstance(said, list) else [float(said)]


def test_averages_and_works() -> None:
    def rank() -> Any:
        here = dist.get_rank()
        x = oneflow.sparse_coo_tensor([[here, 2]], [1.0, 3.0], (4,))
        work = dist.all_reduce(x, dist.ReduceOp.AVG, async_op=True)
        future = work.get_future()
        future.wait()
        with dist._coalescing_manager():
            y, dense = oneflow.sparse_coo_tensor([[here]], [2.0], (2,)), oneflow.ones(1)
            dist.all_reduce(y)
            dist.all_reduce(dense)
        return x.to_dense().tolist(), y.to_dense().tolist(), dense.tolist()

    assert run_ranks(2, rank) == [([0.5, 0.5, 3.0, 0.0], [2.0, 2.0], [2.0])] * 2


def test_what_cannot_be_summed_is_refused_on_all_ranks() -> None:
    def rank() -> list[str]:
        texts = []
        for op, size in ((dist.ReduceOp.MAX, 4), (dist.ReduceOp.SUM, 4 + dist.get_rank())):
            with pytest.raises(RuntimeError) as error:
                dist.all_reduce(oneflow.sparse_coo_tensor([[0]], [1.0], (size,)), op)
            texts.append(str(error.value))
        return texts

    for operation, sizes in run_ranks(2, rank):
        assert "unsupported reduction operation 'max' of sparse tensors" in operation
        assert "sizes [4] (1 of them sparse) on rank 0 and [5] (1) on rank 1" in sizes


def test_a_dense_gradient_of_a_sparse_weight_is_named() -> None:
    def rank() -> str:
        embedding = oneflow.nn.Embedding(4, 2, sparse=True)
        model = oneflow.nn.parallel.DistributedDataParallel(embedding)
        embedding.weight.grad = oneflow.zeros(4, 2)
        with pytest.raises(RuntimeError) as error:
            model(oneflow.tensor([0])).sum().backward()
        return str(error.value)

    assert all("must get sparse gradients alone" in text for text in run_ranks(2, rank))
