"""Sequence parallelism by PyTorch's styles: the losses of one rank, and two gathers and two scattered sums a pair."""

from __future__ import annotations

from typing import Any

import oneflow as torch
import pytest
from oneflow import distributed, nn
from oneflow.distributed.tensor import Shard
from oneflow.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from oneflow.testing import run_ranks

BATCH, TIME, WIDTH, HIDDEN, LAYERS = 2, 8, 8, 16, 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def train(n: int, n_steps: int) -> tuple[list[float], dict[str, int]]:
    torch.manual_seed(0)
    model = nn.Sequential(*[Block() for _ in range(LAYERS)]).double()
    x = torch.randn(BATCH, TIME, WIDTH, dtype=torch.float64)
    if n > 1:
        mesh = distributed.init_device_mesh("cpu", (n,))
        plan: dict[str, Any] = {
            "*.norm": SequenceParallel(),
            "*.up": ColwiseParallel(input_layouts=Shard(1)),
            "*.down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
            "0": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Shard(1)),
            f"{LAYERS - 1}": PrepareModuleOutput(
                output_layouts=Shard(1), desired_output_layouts=Shard(1), use_local_output=False
            ),
        }
        parallelize_module(model, mesh, plan)
        x = x.chunk(n, 1)[distributed.get_rank()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses, sent = [], {}
    for _ in range(n_steps):
        distributed.reset_wire_counters()
        loss = model(x).square().mean()
        losses.append(float(loss.full_tensor() if n > 1 else loss))
        optimizer.zero_grad()
        loss.backward()
        sent = distributed.wire_bytes()
        optimizer.step()
    return losses, sent


@pytest.mark.parametrize("n", [2, 4])
def test_one_loss_curve(n: int) -> None:
    expected, _ = train(1, 20)
    assert expected[0] != expected[-1]
    for losses, _ in run_ranks(n, train, n, 20):
        assert losses == pytest.approx(expected, rel=1e-9)


def test_bytes_of_the_formula() -> None:
    n = 2
    each = LAYERS * 2 * 8 * BATCH * TIME * WIDTH * (n - 1) // n
    for _, sent in run_ranks(n, train, n, 1):
        print(sent, each)
        assert sent["all_gather"] == sent["reduce_scatter"] == each
