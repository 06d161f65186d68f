"""Pipeline stages on different ranks: the losses of one rank, eager and compiled, and overlapping execution."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import oneflow as torch
import oneflow.nn as nn
import pytest
from oneflow import sbp
from oneflow.testing import run_ranks

BATCH, MICRO = 16, 4


class Staged(nn.Module):
    """Layers one after the other, cut into as many stages as there are placements."""

    def __init__(self, placements: list) -> None:
        super().__init__()
        torch.manual_seed(0)
        widths = [(8, 32), (32, 32), (32, 16), (16, 4)]
        layers = [nn.Sequential(nn.Linear(i, o), nn.GELU(), nn.LayerNorm(o)) for i, o in widths]
        each = len(layers) // max(len(placements), 1)
        self.stages = nn.ModuleList([nn.Sequential(*layers[k : k + each]) for k in range(0, len(layers), each)])
        self.placements = placements
        for stage, placement in zip(self.stages, placements, strict=False):
            stage.to_global(placement=placement, sbp=sbp.broadcast)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for k, stage in enumerate(self.stages):
            if self.placements:
                x = x.to_global(placement=self.placements[k])
            x = stage(x)
        return x


def batches(n: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    draw = [torch.randn(BATCH, 8, generator=generator) for _ in range(n)]
    return [(x, x[:, :4].sin()) for x in draw]


class Step(nn.Graph):
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        super().__init__()
        self.model = model
        self.add_optimizer(optimizer)
        self.config.set_gradient_accumulation_steps(MICRO)

    def build(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = (self.model(x) - y).square().mean()
        loss.backward()
        return loss / MICRO


def train(stages: list[list[int]], traced: bool, n_steps: int = 5) -> tuple[list[float], str]:
    """Train over stages on these ranks (none: on this rank alone); return the losses and the program."""
    placements = [torch.placement("cpu", ranks) for ranks in stages]
    model = Staged(placements)
    clip = {"clip_grad_max_norm": 0.05, "clip_grad_norm_type": 2.0}
    optimizer = torch.optim.AdamW([{"params": list(model.parameters()), **clip}], lr=3e-3)
    step = Step(model, optimizer)
    losses = []
    for x, y in batches(n_steps):
        if placements:
            x = x.to_global(placements[0], sbp.broadcast).to_global(sbp=sbp.split(0))
            y = y.to_global(placements[-1], sbp.broadcast)
        if traced:
            parts = step(x, y)
        else:
            optimizer.zero_grad()
            parts = []
            for xs, ys in zip(x.chunk(MICRO), y.chunk(MICRO), strict=True):
                parts.append((model(xs) - ys).square().mean() / MICRO)
                parts[-1].backward()
            optimizer.clip_grad()
            optimizer.step()
            parts = torch.stack([p.detach() for p in parts])
        total = parts.sum()
        if placements:
            total = total.to_global(placement=torch.placement.all("cpu"), sbp=sbp.broadcast)
        losses.append(total.item())
    return losses, repr(step) if traced else ""


@pytest.fixture(scope="module")
def one_rank() -> list[float]:
    return train([], traced=False)[0]


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("stages", [[[0], [1]], [[0], [1], [2], [3]], [[0, 1], [2, 3]]], ids=str)
def test_losses_equal_those_of_one_rank(one_rank: list[float], stages: list[list[int]], traced: bool) -> None:
    n = 1 + max(r for ranks in stages for r in ranks)
    for losses, _ in run_ranks(n, lambda: train(stages, traced)):
        assert losses == pytest.approx(one_rank, rel=1e-5)


def moves(program: str) -> str:
    """Return sends and receives in the order of the program."""
    return "".join({"receive": "r", "send": "s"}[word] for word in re.findall(r"_cross_(receive|send)\(", program))


def test_a_stage_works_ahead_by_the_stages_behind_it() -> None:
    first, second = run_ranks(2, lambda: moves(train([[0], [1]], traced=True, n_steps=1)[1]))
    # Last come the norms of the gradients: one number to the first stage, and the total back.
    assert first == "ss" + "rs" * 2 + "rr" + "rs" and second == "rs" * 4 + "sr"
    orders = run_ranks(4, lambda: moves(train([[0], [1], [2], [3]], traced=True, n_steps=1)[1]))
    # Three stages behind: three forwards first. In the middle each micro-batch is received, sent, received and sent.
    assert orders[0].startswith("ssss" + "rrrr" + "rrr") and orders[3].startswith("rs" * 4)
    assert orders[2].startswith("rs" + "rsrs" * 3 + "rs")


SCRIPT = """
import json, sys
from pathlib import Path
sys.path.insert(0, str(Path({tests!r})))
import oneflow as torch
from test_pipeline import train
losses, _ = train([[0], [1]], traced=True)
Path({out!r}, f"{{torch.distributed.get_rank()}}.json").write_text(json.dumps(losses))
"""


def test_two_processes(one_rank: list[float], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent), out=str(tmp_path)))
    command = [sys.executable, "-m", "oneflow.distributed.launch", "--nproc-per-node", "2", str(script)]
    assert subprocess.run(command, timeout=120).returncode == 0
    for rank in (0, 1):
        assert json.loads((tmp_path / f"{rank}.json").read_text()) == pytest.approx(one_rank, rel=1e-5)
