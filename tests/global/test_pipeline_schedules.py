"""Graphs whose pipeline stages follow a table: losses of one rank, messages in the table's order, clear refusals."""

from __future__ import annotations

import re
from typing import Any

import oneflow as torch
import oneflow.nn as nn
import pytest
from oneflow import sbp
from oneflow.distributed.pipelining import PipelineTable, make_table
from oneflow.nn.graph import GraphModule
from oneflow.testing import run_ranks

# By schedule: the rank of each stage, and micro-batches.
CASES = {
    "GPipe": ([0, 1], 4),
    "1F1B": ([0, 1, 2], 4),
    "ZB-H1": ([0, 1, 2], 4),
    "Interleaved1F1B": ([0, 1, 0, 1], 4),
    "InterleavedZeroBubble": ([0, 1, 0, 1, 0, 1], 2),
    "LoopedBFS": ([0, 1, 0, 1], 4),
    "ZB-V": ([0, 1, 1, 0], 4),
    "DualPipeV": ([0, 1, 1, 0], 4),
}
ROWS = 8


def layer(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)).double()


class Staged(nn.Module):
    def __init__(self, placements: list[Any]) -> None:
        super().__init__()
        self.stages = nn.ModuleList([layer(k) for k in range(len(placements))])
        for k, (stage, placement) in enumerate(zip(self.stages, placements, strict=True)):
            if placement is not None:
                stage.to_global(placement=placement, sbp=sbp.broadcast)
                stage.to(GraphModule).set_stage(k, placement)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage in self.stages:
            x = stage(x)
        return x


class Step(nn.Graph):
    def __init__(self, model: nn.Module, schedule: Any, n_micro_batches: int) -> None:
        super().__init__()
        self.model = model
        self.add_optimizer(torch.optim.AdamW(model.parameters(), lr=1e-2))
        self.config.set_gradient_accumulation_steps(n_micro_batches)
        self.config.set_pipeline_schedule(schedule)

    def build(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = (self.model(x) - y).square().mean()
        loss.backward()
        return loss


def batches(n: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    draw = [torch.randn(ROWS, 8, generator=generator, dtype=torch.float64) for _ in range(n)]
    return [(x, x.sin()) for x in draw]


def alone(n_stages: int, n_micro_batches: int) -> list[float]:
    step = Step(Staged([None] * n_stages), None, n_micro_batches)
    return [step(x, y).mean().item() for x, y in batches(3)]


def train(schedule: Any, ranks: list[Any], n_micro_batches: int, each: int = 1) -> tuple[list[float], str]:
    placements = [torch.placement("cpu", [each * r + i for i in range(each)]) for r in ranks]
    step = Step(Staged(placements), schedule, n_micro_batches)
    losses = []
    for x, y in batches(3):
        x = x.to_global(placements[0], sbp.broadcast).to_global(sbp=sbp.split(0))
        y = y.to_global(placements[-1], sbp.broadcast)
        loss = step(x, y).mean().to_global(placement=torch.placement.all("cpu"), sbp=sbp.broadcast)
        losses.append(loss.item())
    return losses, repr(step)


def moves(program: str) -> str:
    """Receives and sends in the order of the program."""
    return "".join({"receive": "r", "send": "s"}[word] for word in re.findall(r"_cross_(receive|send)\(", program))


def expected(table: PipelineTable, rank: int) -> str:
    """The messages that a row needs."""
    text = ""
    for stage, _, kind in table.rows[rank]:
        before = stage > 0 and table.rank_of(stage - 1) != rank
        after = stage + 1 < table.n_stages and table.rank_of(stage + 1) != rank
        if kind != "W":
            source, target = (before, after) if kind == "F" else (after, before)
            text += "r" * source + "s" * target
    return text


@pytest.mark.parametrize("schedule", CASES)
def test_losses_and_order(schedule: str) -> None:
    ranks, m = CASES[schedule]
    table = make_table(schedule, max(ranks) + 1, m, len(ranks) // (max(ranks) + 1))
    reference = alone(len(ranks), m)
    for rank, (losses, program) in enumerate(run_ranks(max(ranks) + 1, lambda: train(schedule, ranks, m))):
        assert losses == pytest.approx(reference, rel=1e-12)
        # Behind the table's messages come those of the losses.
        assert moves(program).startswith(expected(table, rank))


def test_weights_wait_for_their_turn() -> None:
    ranks, m = CASES["ZB-H1"]
    after = {}
    for schedule in ("ZB-H1", "1F1B"):
        program = run_ranks(3, lambda s=schedule: train(s, ranks, m))[1][1]
        # Gradients of weights and norms that the middle rank computes behind its last message to the first.
        after[schedule] = program[program.rindex("_cross_send(") :].count("layer_norm_backward") + len(
            re.findall(r"\b(?:sum|matmul|addmm|linear)\(", program[program.rindex("_cross_send(") :])
        )
    assert after["ZB-H1"] > after["1F1B"]


def test_several_ranks_a_stage() -> None:
    for losses, _ in run_ranks(4, lambda: train("ZB-V", [0, 1, 1, 0], 4, each=2)):
        assert losses == pytest.approx(alone(4, 4), rel=1e-12)


def test_a_table_of_ones_own() -> None:
    table = PipelineTable([["0F0", "0F1", "0I1", "0I0", "0W1", "0W0"], ["1F1", "1F0", "1B1", "1B0"]])
    with pytest.raises(ValueError, match="wait for each other"):
        PipelineTable([["0F0", "0B0", "0F1", "0B1"], ["1F1", "1F0", "1B0", "1B1"]])
    for losses, _ in run_ranks(2, lambda: train(table, [0, 1], 2)):
        assert losses == pytest.approx(alone(2, 2), rel=1e-12)


def refused(schedule: Any, ranks: list[int], n_micro_batches: int) -> str:
    try:
        train(schedule, ranks, n_micro_batches)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("schedule", "ranks", "n_micro_batches", "text"),
    [
        ("ZB-V", [0, 1, 0, 1], 4, "ZB-V has stage 2 where the stages [1] are"),
        ("1F1B", [0, 1, 0], 4, "3 stages on 2 placements: 1F1B has equally many on each"),
        ("1F1B", [0, 1, 0, 1], 4, "1F1B has 1 stage a rank, got 2"),
        (make_table("1F1B", 2, 4), [0, 1], 2, "the pipeline's table has 4 micro-batches, and a call of the graph 2"),
        (make_table("1F1B", 3, 2), [0, 1], 2, "the pipeline's table has 3 stages, and modules name 2"),
        (PipelineTable([["0F0", "0F1"], ["1F0", "1F1"]]), [0, 1], 2, "the pipeline's table has no backward"),
        (make_table("GPipe", 1, 2, 2), [0, 1], 2, "has stage 1 where the stages [0] are"),
    ],
)
def test_refusals_are_the_same_on_every_rank(schedule: Any, ranks: list[int], n_micro_batches: int, text: str) -> None:
    for found in run_ranks(2, lambda: refused(schedule, ranks, n_micro_batches)):
        assert text in found


def test_stages_without_numbers_are_refused() -> None:
    model = Staged([None, None])
    with pytest.raises(ValueError, match="no module is of stage 0"):
        Step(model, "1F1B", 2)(*batches(1)[0])
    model.stages[0].to(GraphModule).set_stage(0)
    with pytest.raises(ValueError, match="stage 0 has no placement"):
        Step(model, "1F1B", 2)(*batches(1)[0])
    with pytest.raises(ValueError, match="there is no pipeline schedule 'fast'"):
        Step(model, "fast", 2)
    with pytest.raises(TypeError, match="expected a name or a PipelineTable, got int"):
        Step(model, 3, 2)
