"""SyncBatchNorm on several ranks is PyTorch's batch norm of the joined batch, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import oneflow
import pytest
import torch
from oneflow import nn
from oneflow.testing import run_ranks

N_CHANNELS = 3
OPTIONS: list[dict[str, Any]] = [
    {},
    {"momentum": None},
    {"affine": False},
    {"track_running_stats": False},
    {"eps": 0.1, "momentum": 0.7},
]


def joined(sizes: tuple[int, ...], shape: tuple[int, ...], dtype: str) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(sum(sizes))
    x, grad = random.normal(3, 2, (2, sum(sizes), N_CHANNELS, *shape)).astype(dtype)
    return x, grad


def parts(whole: np.ndarray, sizes: tuple[int, ...]) -> list[np.ndarray]:
    return np.split(whole, np.cumsum(sizes)[:-1])


def expected(sizes: tuple[int, ...], shape: tuple[int, ...], dtype: str, options: dict[str, Any]) -> list[Any]:
    x, grad = (torch.tensor(a) for a in joined(sizes, shape, dtype))
    layer = {0: torch.nn.BatchNorm1d, 1: torch.nn.BatchNorm1d, 2: torch.nn.BatchNorm2d}[len(shape)]
    norm = layer(N_CHANNELS, dtype=x.dtype, **options)
    if norm.affine:
        with torch.no_grad():
            norm.weight.copy_(torch.arange(1, N_CHANNELS + 1))
    for _ in range(2):
        x.grad = None
        norm.zero_grad()
        y = norm(x.requires_grad_())
        y.backward(grad)
    params = [p.grad.numpy() for p in norm.parameters()]
    return [y.detach().numpy(), x.grad.numpy(), params, [b.numpy() for b in norm.buffers() if b is not None]]


def found(sizes: tuple[int, ...], shape: tuple[int, ...], dtype: str, options: dict[str, Any]) -> list[Any]:
    def rank() -> list[Any]:
        here = oneflow.distributed.get_rank()
        x, grad = (oneflow.tensor(parts(a, sizes)[here]) for a in joined(sizes, shape, dtype))
        norm = nn.SyncBatchNorm(N_CHANNELS, dtype=x.dtype, **options)
        if norm.affine:
            with oneflow.no_grad():
                norm.weight.copy_(oneflow.arange(1, N_CHANNELS + 1))
        for _ in range(2):
            x.grad = None
            norm.zero_grad()
            y = norm(x.requires_grad_())
            y.backward(grad)
        params = [p.grad.numpy() for p in norm.parameters()]
        return [y.detach().numpy(), x.grad.numpy(), params, [b.numpy() for b in norm.buffers() if b is not None]]

    return run_ranks(len(sizes), rank)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("sizes", [(4, 4), (5, 2), (3, 0, 1)], ids=str)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3)], ids=str)
def test_ranks_normalise_as_the_joined_batch(sizes: Any, shape: Any, options: Any) -> None:
    check(sizes, shape, "float64", options, 1e-9)


def test_float32_keeps_its_digits() -> None:
    check((4, 3), (5,), "float32", {}, 2e-5)


def check(sizes: tuple[int, ...], shape: tuple[int, ...], dtype: str, options: dict[str, Any], near: float) -> None:
    y, grad, params, buffers = expected(sizes, shape, dtype, options)
    ranks = found(sizes, shape, dtype, options)
    for rank, (of_y, of_grad) in enumerate(zip(parts(y, sizes), parts(grad, sizes), strict=True)):
        np.testing.assert_allclose(ranks[rank][0], of_y, rtol=near, atol=near)
        np.testing.assert_allclose(ranks[rank][1], of_grad, rtol=near, atol=near)
        for mine, theirs in zip(ranks[rank][3], buffers, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=near, atol=near)
    for i, theirs in enumerate(params):
        np.testing.assert_allclose(sum(r[2][i] for r in ranks), theirs, rtol=10 * near, atol=10 * near)


def test_one_value_a_channel_is_refused_on_every_rank() -> None:
    def rank() -> str:
        n = 1 - oneflow.distributed.get_rank()
        with pytest.raises(ValueError, match="more than 1 value per channel over all ranks") as error:
            nn.SyncBatchNorm(2)(oneflow.ones(n, 2))
        return str(error.value)

    assert [f"on rank {i}" in text for i, text in enumerate(run_ranks(2, rank))] == [True, True]


def test_a_group_normalises_by_its_own_batches() -> None:
    def rank() -> list[float]:
        here = oneflow.distributed.get_rank()
        group = oneflow.distributed.new_group([0, 1])
        x = oneflow.full((1, 1), float(here))
        # Rank 2 is no member: it has its own batch alone.
        x = x if here < 2 else oneflow.tensor([[0.0], [2.0]])
        return nn.SyncBatchNorm(1, eps=1e-12, process_group=group)(x).flatten().tolist()

    assert run_ranks(3, rank) == [[-1.0], [1.0], [-1.0, 1.0]]


def test_converted_networks_train_as_one() -> None:
    """Under DistributedDataParallel, compared with one process and the whole batch."""
    batch = oneflow.randn(8, 4, generator=oneflow.Generator().manual_seed(0))

    def train(wrap: Any, x: oneflow.Tensor) -> list[float]:
        oneflow.manual_seed(1)
        net = wrap(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1)))
        optimizer = oneflow.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
        return oneflow.cat([p.detach().flatten() for p in net.parameters()]).tolist()

    def rank() -> list[float]:
        def wrap(net: Any) -> Any:
            return nn.parallel.DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(net))

        return train(wrap, batch.chunk(2)[oneflow.distributed.get_rank()])

    alone = train(lambda net: net, batch)
    for parameters in run_ranks(2, rank):
        assert parameters == pytest.approx(alone, rel=1e-4, abs=1e-6)
