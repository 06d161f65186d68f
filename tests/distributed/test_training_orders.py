"""Forwards and backwards of DDP and FSDP in other orders than one after the other.

Gradients are the averages of what each rank would get alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oneflow
import oneflow.distributed as dist
import pytest
from oneflow import nn
from oneflow.distributed.fsdp import FullyShardedDataParallel, fully_shard
from oneflow.testing import run_ranks
from oneflow.utils.checkpoint import checkpoint

N = 2


class Model(nn.Module):
    """Three layers, of which one may be called twice."""

    def __init__(self) -> None:
        super().__init__()
        oneflow.manual_seed(0)
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any, twice: bool = False) -> Any:
        x = self.b(self.a(x).tanh())
        return self.c(self.b(x.relu()) if twice else x)


def layers_sharded(model: Any, **options: Any) -> Any:
    for layer in model.children():
        fully_shard(layer, **options)
    return fully_shard(model)


ddp: Any = nn.parallel.DistributedDataParallel
KINDS: dict[str, Callable[[Any], Any]] = {
    "ddp": ddp,
    "ddp buckets": lambda model: ddp(model, bucket_cap_mb=1e-6),
    "ddp views": lambda model: ddp(model, gradient_as_bucket_view=True),
    "ddp unused": lambda model: ddp(model, find_unused_parameters=True),
    "fully_shard": layers_sharded,
    "fully_shard kept": lambda model: layers_sharded(model, reshard_after_forward=False),
    "fully_shard whole": fully_shard,
    "FSDP": lambda model: FullyShardedDataParallel(model, auto_wrap_policy={nn.Linear}),
}


def one_loss(model: Any, x: Any) -> None:
    (model(x).sum() * model(2 * x).square().sum()).backward()


def two_losses(model: Any, x: Any) -> None:
    first, second = model(x).square().sum(), model(x + 1).square().sum()
    first.backward()
    second.backward()


def two_losses_backwards(model: Any, x: Any) -> None:
    first, second = model(x).square().sum(), model(x + 1).square().sum()
    second.backward()
    first.backward()


def backward_twice(model: Any, x: Any) -> None:
    loss = model(x).square().sum()
    loss.backward(retain_graph=True)
    loss.backward()


def target_without_gradients(model: Any, x: Any) -> None:
    out = model(x)
    with oneflow.no_grad():
        target = model(3 * x)
    (out - target).square().sum().backward()


def target_in_eval(model: Any, x: Any) -> None:
    out = model(x)
    model.eval()
    with oneflow.no_grad():
        target = model(3 * x)
    model.train()
    (out - target).square().sum().backward()


def layer_twice(model: Any, x: Any) -> None:
    model(x, True).square().sum().backward()


def computed_again(model: Any, x: Any) -> None:
    checkpoint(model, x, use_reentrant=False).square().sum().backward()


def gradient_of_input_first(model: Any, x: Any) -> None:
    x = x.clone().requires_grad_()
    loss = model(x).square().sum()
    oneflow.autograd.grad(loss, x, retain_graph=True)
    loss.backward()


def gradient_penalty(model: Any, x: Any) -> None:
    x = x.clone().requires_grad_()
    (grad,) = oneflow.autograd.grad(model(x).square().sum(), x, create_graph=True)
    grad.square().sum().backward()


def two_steps_added(model: Any, x: Any) -> None:
    model(x).square().sum().backward()
    model(x + 1).square().sum().backward()


ORDERS = [
    one_loss,
    two_losses,
    two_losses_backwards,
    backward_twice,
    target_without_gradients,
    target_in_eval,
    layer_twice,
    computed_again,
    gradient_of_input_first,
    gradient_penalty,
    two_steps_added,
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.__name__)
def test_gradients_are_averages_in_any_order(order: Callable[[Any, Any], None], kind: str) -> None:
    def batch(rank: int) -> Any:
        return oneflow.arange(8.0).view(2, 4).sin() * (rank + 1)

    def grads(model: Any, wrapped: Any, rank: int) -> list[Any]:
        # A second step follows from what the first one has left behind.
        for step in range(2):
            order(wrapped, batch(rank) + step)
        found = [p.grad for p in model.parameters()]
        return [grad.full_tensor() if grad.is_global else grad for grad in found]

    def on_rank() -> list[Any]:
        model = Model()
        return grads(model, KINDS[kind](model), dist.get_rank())

    alone = [grads(model, model, rank) for rank, model in enumerate([Model(), Model()])]
    for got in run_ranks(N, on_rank):
        for mine, each in zip(got, zip(*alone, strict=True), strict=True):
            assert oneflow.allclose(mine, sum(each) / N, rtol=1e-4, atol=1e-5)
