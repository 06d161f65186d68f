"""Gradients of several micro-batches: reduced once a step, by the bytes that ranks send and the losses of one rank."""

from __future__ import annotations

from typing import Any

import oneflow as torch
import oneflow.nn as nn
import pytest
from oneflow import sbp
from oneflow.nn.graph import GraphModule
from oneflow.testing import run_ranks

WIDTH, ROWS = 8, 16
# Of one stage: a linear layer and a norm.
ELEMENTS = WIDTH * WIDTH + 3 * WIDTH


class Stages(nn.Module):
    def __init__(self, placements: list[Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        make = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)).double() for _ in placements]
        self.stages = nn.ModuleList(make)
        for k, (stage, placement) in enumerate(zip(self.stages, placements, strict=True)):
            if placement is not None:
                stage.to_global(placement=placement, sbp=sbp.broadcast)
                stage.to(GraphModule).set_stage(k, placement)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage in self.stages:
            x = stage(x).tanh()
        return x


class Step(nn.Graph):
    def __init__(self, model: nn.Module, n_micro_batches: int, schedule: str | None = None) -> None:
        super().__init__()
        self.model = model
        self.add_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        self.config.set_gradient_accumulation_steps(n_micro_batches)
        self.config.set_pipeline_schedule(schedule)

    def build(self, x: torch.Tensor) -> torch.Tensor:
        loss = self.model(x).square().mean()
        loss.backward()
        return loss


def batches() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64) for _ in range(3)]


def alone(n_stages: int, n_micro_batches: int) -> list[float]:
    step = Step(Stages([None] * n_stages), n_micro_batches)
    return [step(x).mean().item() for x in batches()]


def train(ranks: list[list[int]], n_micro_batches: int, schedule: str | None) -> tuple[list[float], int]:
    """Return the losses, and the bytes that this rank sends in all-reduces in the last step."""
    placements = [torch.placement("cpu", own) for own in ranks]
    step = Step(Stages(placements), n_micro_batches, schedule)
    losses, sent = [], 0
    for x in batches():
        whole = x.to_global(placements[0], sbp.broadcast).to_global(sbp=sbp.split(0))
        torch.distributed.reset_wire_counters()
        loss = step(whole)
        sent = torch.distributed.wire_bytes().get("all_reduce", 0)
        losses.append(loss.mean().to_global(placement=torch.placement.all("cpu"), sbp=sbp.broadcast).item())
    return losses, sent


def all_reduced(elements: int, n: int) -> int:
    """The bytes that a rank sends to reduce float64 numbers over n ranks: each part but its own, twice."""
    return 8 * 2 * elements * (n - 1) // n


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("n_micro_batches", [1, 2, 4])
def test_data_parallel(n: int, n_micro_batches: int) -> None:
    reference = alone(2, n_micro_batches)
    for losses, sent in run_ranks(n, train, [list(range(n))] * 2, n_micro_batches, None):
        assert losses == pytest.approx(reference, rel=1e-12)
        assert sent == all_reduced(2 * ELEMENTS, n)


@pytest.mark.parametrize("schedule", [None, "GPipe", "1F1B", "ZB-H1"])
def test_pipelines_of_replicated_stages(schedule: str | None) -> None:
    reference = alone(2, 4)
    for losses, sent in run_ranks(4, train, [[0, 1], [2, 3]], 4, schedule):
        assert losses == pytest.approx(reference, rel=1e-12)
        assert sent == all_reduced(ELEMENTS, 2)


def test_a_gradient_that_is_read_in_between_is_reduced_before() -> None:
    """By hand; what clips gradients waits for those of all micro-batches."""

    def clipped(alone: bool) -> tuple[list[float], int]:
        place = torch.placement.all("cpu")
        model = Stages([place])

        class Clipped(Step):
            def build(self, x: torch.Tensor) -> torch.Tensor:
                loss = super().build(x)
                with torch.no_grad():
                    for p in model.parameters():
                        p.grad.clamp_(-1e-3, 1e-3)  # type: ignore[union-attr]
                return loss

        step, losses = Clipped(model, 2), []
        for x in batches():
            torch.distributed.reset_wire_counters()
            if alone:
                # Each of two micro-batches has a part of each of two ranks' rows.
                x = x.reshape(2, 2, ROWS // 4, WIDTH).transpose(0, 1).reshape(ROWS, WIDTH)
            losses.append(step(x.to_global(place, sbp.broadcast).to_global(sbp=sbp.split(0))).mean().item())
        return losses, torch.distributed.wire_bytes().get("all_reduce", 0)

    (reference, _), *_ = run_ranks(1, clipped, True)
    for losses, sent in run_ranks(2, clipped, False):
        assert losses == pytest.approx(reference, rel=1e-12)
        assert sent >= 2 * all_reduced(ELEMENTS, 2)


@pytest.mark.parametrize("n_leading", [2, 3])
def test_a_sequence_in_parts_moves_nothing_but_gradients(n_leading: int) -> None:
    """The batch's second dimension lies on several ranks: products of weights' gradients stay where they are."""

    def run() -> dict[str, int]:
        place = torch.placement.all("cpu")
        torch.manual_seed(0)
        layer = nn.Linear(6, 4).double()
        x = torch.randn([2, 4, 3][:n_leading] + [6], dtype=torch.float64)
        local = layer(x)
        local.square().sum().backward()
        expected = [p.grad.clone() for p in layer.parameters()]
        layer.zero_grad()
        layer.to_global(place, sbp.broadcast)
        x = x.to_global(place, sbp.broadcast).to_global(sbp=sbp.split(1))
        torch.distributed.reset_wire_counters()
        layer(x).square().sum().backward()
        sent = dict(torch.distributed.wire_bytes())
        for p, grad in zip(layer.parameters(), expected, strict=True):
            torch.testing.assert_close(p.grad.to_local(), grad, rtol=1e-12, atol=1e-12)
        return {k: n for k, n in sent.items() if n}

    for sent in run_ranks(2, run):
        assert sent == {"all_reduce": all_reduced(4 * 6 + 4, 2)}
