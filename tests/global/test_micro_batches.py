"""Micro-batches of inputs that ranks share by rows: no row moves, and results keep the order of rows."""

from __future__ import annotations

from typing import Any

import oneflow as torch
import pytest
from oneflow import nn
from oneflow.testing import run_ranks

B, S0, S1 = torch.sbp.broadcast, torch.sbp.split(0), torch.sbp.split(1)


class Step(nn.Graph):
    def __init__(self, model: nn.Module, micro_batches: int) -> None:
        super().__init__()
        self.model = model
        self.add_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        self.config.set_gradient_accumulation_steps(micro_batches)

    def build(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = self.model(x)
        loss = ((made - y) ** 2).mean()
        loss.backward()
        return loss, made, y


def data(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return tuple(torch.randn(rows, n, generator=generator, dtype=torch.float64) for n in (6, 4))  # type: ignore[return-value]


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4)).double()


def alone(rows: int, micro_batches: int) -> tuple[list[float], Any, Any]:
    step = Step(model(), micro_batches)
    x, y = data(rows)
    found = [step(x, y) for _ in range(3)]
    return [loss.mean().item() for loss, _, _ in found], found[-1][1].tolist(), found[-1][2].tolist()


def spread(shape: list[int], of_x: list[Any], of_y: list[Any], rows: int, micro_batches: int) -> tuple[Any, ...]:
    place = torch.placement("cpu", torch.arange(torch.tensor(shape).prod().item()).reshape(shape).tolist())
    whole = [B] * len(shape)
    step = Step(model().to_global(place, whole), micro_batches)
    x, y = (t.to_global(place, whole).to_global(sbp=s) for t, s in zip(data(rows), (of_x, of_y), strict=True))
    found, sent = [], {}
    for _ in range(3):
        torch.distributed.reset_wire_counters()
        found.append(step(x, y))
        sent = torch.distributed.wire_bytes()
    loss, made, target = ([t.to_global(sbp=whole).to_local() for t in each] for each in zip(*found, strict=True))
    return [each.mean().item() for each in loss], made[-1].tolist(), target[-1].tolist(), sent


@pytest.mark.parametrize(
    ("shape", "of_x", "of_y"),
    [
        ([2], [S0], [S0]),
        ([4], [S0], [S0]),
        ([2], [S0], [B]),
        ([2, 2], [S0, B], [S0, B]),
        ([2, 2], [S0, S0], [S0, S0]),
        ([2, 2], [S0, S0], [B, B]),
        ([2, 2], [B, B], [B, B]),
        ([2], [B], [S0]),
        ([2], [S1], [S0]),
    ],
    ids=str,
)
@pytest.mark.parametrize("micro_batches", [2, 3])
def test_losses_and_rows_are_those_of_one_rank(
    shape: list[int], of_x: list[Any], of_y: list[Any], micro_batches: int
) -> None:
    rows = 24
    losses, made, target = alone(rows, micro_batches)
    for found in run_ranks(torch.tensor(shape).prod().item(), spread, shape, of_x, of_y, rows, micro_batches):
        assert found[0] == pytest.approx(losses, rel=1e-9)
        for row, want in zip(found[1], made, strict=True):
            assert row == pytest.approx(want, rel=1e-9)
        assert found[2] == target


def test_no_row_moves() -> None:
    for n in (2, 4):
        found = run_ranks(n, spread, [n], [S0], [S0], 24, 3)
        # Gradients are all that is sent.
        assert all(not sent.get("all_gather") and not sent.get("all_to_all") for *_, sent in found), found[0][-1]


def test_rows_that_do_not_divide_on_a_rank_are_gathered() -> None:
    losses, made, target = alone(18, 3)
    for found in run_ranks(4, spread, [4], [S0], [S0], 18, 3):
        assert found[0] == pytest.approx(losses, rel=1e-9)
        assert found[2] == target
        for row, want in zip(found[1], made, strict=True):
            assert row == pytest.approx(want, rel=1e-9)
    with pytest.raises(ValueError, match="multiple of 5"):
        alone(18, 5)
