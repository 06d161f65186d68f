"""Gradients that build clips: those of all micro-batches together, as where one batch has all rows."""

from __future__ import annotations

import math
from typing import Any

import oneflow as torch
import pytest
from oneflow import nn
from oneflow.testing import run_ranks

WAYS: dict[str, Any] = {
    "norm": lambda p: nn.utils.clip_grad_norm_(p, 0.05),
    "largest": lambda p: nn.utils.clip_grad_norm_(p, 0.01, norm_type=math.inf),
    "value": lambda p: nn.utils.clip_grad_value_(p, 0.01),
    "two calls": lambda p: nn.utils.clip_grads_with_norm_(p, 0.05, nn.utils.get_total_norm([q.grad for q in p])),
}


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to(torch.float64)


def batches() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(8, 8, generator=generator, dtype=torch.float64) for _ in range(5)]


class Step(nn.Graph):
    def __init__(self, model: nn.Module, way: str, micro_batches: int, zero: int = 0) -> None:
        super().__init__()
        self.model, self.way = model, way
        self.add_optimizer(torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9))
        self.config.set_gradient_accumulation_steps(micro_batches)
        if zero:
            self.config.enable_zero(stage=zero, shard_min_size=4)

    def build(self, x: torch.Tensor) -> Any:
        loss = self.model(x).square().mean()
        loss.backward()
        norm = WAYS[self.way](list(self.model.parameters()))
        return loss if norm is None else (loss, norm)


def alone(way: str) -> tuple[list[float], list[float]]:
    """Losses and norms of whole batches without a graph."""
    own, losses, norms = model(), [], []
    optimizer = torch.optim.SGD(own.parameters(), lr=1.0, momentum=0.9)
    for x in batches():
        optimizer.zero_grad()
        loss = own(x).square().mean()
        loss.backward()
        norm = WAYS[way](list(own.parameters()))
        optimizer.step()
        losses.append(loss.item())
        norms += [] if norm is None else [norm.item()]
    return losses, norms


@pytest.mark.parametrize("micro_batches", [1, 2, 4])
@pytest.mark.parametrize("way", WAYS)
def test_micro_batches_are_clipped_together(way: str, micro_batches: int) -> None:
    losses, norms = alone(way)
    step, found = Step(model(), way, micro_batches), []
    for k, x in enumerate(batches()):
        result = step(x)
        if norms:
            loss, norm = result
            norm = norm.reshape(-1)
            # A part of the sum has no norm that anybody should read.
            assert norm[:-1].isnan().all() and norm[-1].item() == pytest.approx(norms[k], rel=1e-12)
        else:
            loss = result
        found.append(loss.mean().item())
    assert found == pytest.approx(losses, rel=1e-12)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_on_ranks_with_slices(zero: int) -> None:
    def rank() -> tuple[list[float], int]:
        place = torch.placement.all("cpu")
        step, found = Step(model().to_global(place, torch.sbp.broadcast), "norm", 2, zero), []
        for x in batches():
            torch.distributed.reset_wire_counters()
            loss, _ = step(x.to_global(place, torch.sbp.broadcast).to_global(sbp=torch.sbp.split(0)))
            sent = sum(torch.distributed.wire_bytes().values())
            found.append(loss.to_global(sbp=[torch.sbp.broadcast]).to_local().mean().item())
        return found, sent

    losses, _ = alone("norm")
    for found, sent in run_ranks(2, rank):
        assert found == pytest.approx(losses, rel=1e-12)
        # Gradients are reduced once a step, not for the norm of each micro-batch.
        gradients = 8 * (8 * 16 + 16 + 16 * 4 + 4)
        assert zero or sent <= gradients + 1024, sent
