"""DistributedDataParallel: several ranks train as one rank does on the whole batch."""

from __future__ import annotations

from typing import Any

import oneflow as torch
import oneflow.nn as nn
import pytest
from oneflow.nn._ddp import _buckets
from oneflow.nn.parallel import DistributedDataParallel
from oneflow.testing import run_ranks

N_STEPS, BATCH = 4, 12


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(BATCH, 6, generator=torch.Generator().manual_seed(step))
    return x, x[:, :3].sin()


def train(wrap: Any, micro: int = 1) -> list[float]:
    """Train on this rank's part of each batch, in so many parts of it; return the parameters."""
    rank, n = torch.distributed.get_rank(), torch.distributed.get_world_size()
    # Different values on each rank, until the wrapper broadcasts those of the first.
    torch.manual_seed(rank)
    net = model() if wrap is None else wrap(model())
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for step in range(N_STEPS):
        parts = [(x.chunk(n * micro)[rank * micro :][:micro]) for x in batch(step)]
        for i, (x, y) in enumerate(zip(*parts, strict=True)):
            alone = wrap is not None and i + 1 < micro
            with net.no_sync() if alone else torch.enable_grad():
                ((net(x) - y).square().mean() / micro).backward()
        optimizer.step()
        optimizer.zero_grad()
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()]).tolist()


@pytest.mark.parametrize("micro", [1, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bucket_cap_mb": 1e-4},
        {"bucket_size": 2},
        {"use_bucket": False},
        {"find_unused_parameters": True},
        {"static_graph": True},
        {"gradient_as_bucket_view": True},
    ],
)
def test_ranks_train_as_one(options: dict[str, Any], micro: int) -> None:
    expected = train(None)
    for parameters in run_ranks(2, lambda: train(lambda m: DistributedDataParallel(m, **options), micro)):
        assert parameters == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_each_gradient_is_reduced_once() -> None:
    def rank() -> tuple[int, int]:
        net = DistributedDataParallel(model())
        torch.distributed.reset_wire_counters()
        net(batch(0)[0]).sum().backward()
        n_bytes = sum(4 * p.numel() for p in net.parameters())
        return torch.distributed.wire_bytes()["all_reduce"], n_bytes

    # Two ranks send half each way and half back, or all of a short message.
    for sent, n_bytes in run_ranks(2, rank):
        assert sent == n_bytes


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(2, 1), nn.Linear(2, 1), nn.Linear(2, 1)

    def forward(self, x: torch.Tensor, which: str) -> torch.Tensor:
        return getattr(self, which)(x)


class MaybeLinear(nn.Linear):
    def __init__(self) -> None:
        super().__init__(2, 1)

    def forward(self, x: torch.Tensor, applies: bool) -> torch.Tensor:
        return super().forward(x) if applies else x * 1


def test_unused_parameters() -> None:
    def found() -> list[Any]:
        net = DistributedDataParallel(Branches(), find_unused_parameters=True)
        # Rank 0 uses a, rank 1 uses b, nobody c.
        net(torch.ones(1, 2), "ab"[torch.distributed.get_rank()]).sum().backward()
        return [None if m.bias.grad is None else m.bias.grad.item() for m in (net.module.a, net.module.b, net.module.c)]

    assert run_ranks(2, found) == [[0.5, 0.5, None]] * 2

    def idle() -> float:
        net = DistributedDataParallel(MaybeLinear(), find_unused_parameters=True)
        for _ in range(2):
            x = torch.ones(1, 2, requires_grad=True)
            net(x, True)  # A forward without a backward.
            net(x, torch.distributed.get_rank() == 0).sum().backward()
        return net.module.bias.grad.item()

    # Rank 1 uses none of its parameters, and rank 0 waits for its part all the same.
    assert run_ranks(2, idle) == [1.0] * 2

    def missed() -> str:
        net = DistributedDataParallel(Branches())
        net(torch.ones(1, 2), "a").sum().backward()
        with pytest.raises(RuntimeError, match="Expected to have finished reduction") as caught:
            net(torch.ones(1, 2), "a")
        return str(caught.value)

    assert all("b.weight" in text and "find_unused_parameters=True" in text for text in run_ranks(2, missed))


def test_gradients_are_averaged_where_some_parameters_get_none() -> None:
    def after(options: dict[str, Any], backwards: int) -> list[Any]:
        net = DistributedDataParallel(Branches(), **options)
        rank = torch.distributed.get_rank()
        y = net(torch.full((1, 2), rank + 1.0), "a")
        z = net.module.b(torch.full((1, 2), rank + 1.0))
        y.sum().backward()
        if backwards == 2:
            z.sum().backward()
        return [None if p.grad is None else p.grad.flatten().tolist() for p in net.parameters()]

    for options in ({}, {"bucket_size": 1}, {"bucket_size": 4}, {"gradient_as_bucket_view": True}):
        one = [[1.5, 1.5], [1.0], None, None, None, None]
        assert run_ranks(2, lambda options=options: after(options, 1)) == [one] * 2
        two = [[1.5, 1.5], [1.0], [1.5, 1.5], [1.0], None, None]
        assert run_ranks(2, lambda options=options: after(options, 2)) == [two] * 2

    def rank_alone() -> list[Any]:
        net = DistributedDataParallel(Branches())
        net(torch.ones(1, 2), "ab"[torch.distributed.get_rank()]).sum().backward()
        return [None if m.bias.grad is None else m.bias.grad.item() for m in (net.module.a, net.module.b, net.module.c)]

    assert run_ranks(2, rank_alone) == [[0.5, 0.5, None]] * 2

    def oneflows() -> list[Any]:
        net = DistributedDataParallel(Branches())
        for _ in range(2):
            net(torch.ones(1, 2), "a").sum().backward()
        assert net.a is net.module.a and not hasattr(net, "d")
        assert DistributedDataParallel(nn.ReLU())(torch.ones(1)).item() == 1
        return [p.grad.flatten().tolist() for p in net.parameters()]

    with torch.conventions("oneflow"):
        assert run_ranks(2, oneflows) == [[[2.0, 2.0], [2.0], [0.0, 0.0], [0.0], [0.0, 0.0], [0.0]]] * 2


def test_buffers_are_those_of_the_first_rank() -> None:
    def rank() -> list[float]:
        net = DistributedDataParallel(nn.BatchNorm1d(2))
        for _ in range(2):
            net(torch.full((4, 2), float(torch.distributed.get_rank())) + torch.arange(4.0)[:, None]).sum().backward()
        # As the forward of the first rank left them, one step behind on the others.
        before = net.module.running_mean.tolist()
        net.eval()(torch.ones(4, 2))
        assert net.module.running_mean.tolist() == before
        net.train()(torch.ones(4, 2) * torch.arange(4.0)[:, None])
        return net.module.running_mean.tolist()

    first, second = run_ranks(2, rank)
    assert first == second


def test_buffers_stay_each_ranks_own_under_oneflows_conventions() -> None:
    def rank() -> float:
        net = nn.BatchNorm1d(2)
        net.running_mean.fill_(float(torch.distributed.get_rank()))
        return DistributedDataParallel(net, broadcast_buffers=False).module.running_mean[0].item()

    assert run_ranks(2, rank) == [0.0, 0.0]
    with torch.conventions("oneflow"):
        assert run_ranks(2, rank) == [0.0, 1.0]


def test_what_is_refused() -> None:
    with pytest.raises(RuntimeError, match="doesn't have any parameter"):
        DistributedDataParallel(nn.ReLU())
    with pytest.raises(NotImplementedError, match="one device a process"):
        DistributedDataParallel(model(), device_ids=[0, 1])
    spread = model().to_global(placement=torch.placement("cpu", [0]), sbp=torch.sbp.broadcast)
    with pytest.raises(NotImplementedError, match=r"'0\.weight' is on oneflow\.placement"):
        DistributedDataParallel(spread)


class Registered(nn.Module):
    """Layers that run in another order than they are registered in, or in that order."""

    def __init__(self, order: list[int]) -> None:
        super().__init__()
        self.order, self.layers = order, nn.ModuleList([nn.Linear(4, 4, bias=False) for _ in order])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in self.order:
            x = self.layers[i](x).tanh()
        return x


@pytest.mark.parametrize("options", [{"use_bucket": False}, {"bucket_size": 2}])
def test_buckets_follow_the_first_backward_of_the_first_rank(options: dict[str, Any]) -> None:
    order = [2, 0, 3, 1]

    def rank() -> list[list[int]]:
        here = torch.distributed.get_rank()
        torch.manual_seed(0)
        # Another rank meets its layers in another order: their gradients are averaged by name all the same.
        net = DistributedDataParallel(Registered(order if here == 0 else order[::-1]), **options)
        weights = [layer.weight for layer in net.module.layers]
        found = []
        for step in range(3):
            net(torch.full((1, 4), 0.5 + here + step)).sum().backward()
            every: list[Any] = [None] * 2
            torch.distributed.all_gather_object(every, [w.grad.tolist() for w in weights])
            assert every[0] == every[1]
            net.zero_grad()
            index = {id(w): i for i, w in enumerate(weights)}
            found.append([index[id(p)] for bucket in net._reducer._buckets for p in bucket])
        return found

    for first, second, third in run_ranks(2, rank):
        assert (first, second, third) == ([3, 2, 1, 0], order[::-1], order[::-1])


def test_little_is_left_to_reduce_after_the_last_gradient() -> None:
    layers = [nn.Linear(512, 1024) for _ in range(12)]
    parameters = [p for layer in reversed(layers) for p in reversed(list(layer.parameters()))]
    sizes = [sum(4 * p.numel() for p in bucket) for bucket in _buckets(parameters, None, None)]
    assert sum(sizes) == sum(4 * p.numel() for p in parameters)
    assert max(sizes) <= sum(sizes) / 8
    small = [nn.Linear(128, 256).weight for _ in range(200)]
    last, before, *_, first = (sum(4 * p.numel() for p in bucket) for bucket in reversed(_buckets(small, None, None)))
    # The first one is short, too: it starts early.
    assert last <= before <= 2 << 20 and last <= 1 << 20 and first <= 1 << 20
    # Few bytes are reduced together, as each reduction takes its time.
    assert len(_buckets(list(model().parameters()), None, None)) == 1
