"""Graphs whose collectives run beside the compute stream: bits of those in line, and what a dry run shows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import oneflow as torch
import pytest
from oneflow import nn
from oneflow.auto_parallel import Cluster, Link
from oneflow.boxing import nccl
from oneflow.dryrun import dry_run
from oneflow.models import GPT2, GPT2Config, ParallelLayout
from oneflow.testing import run_ranks

B, S0, S1 = torch.sbp.broadcast, torch.sbp.split(0), torch.sbp.split(1)
LAYERS, WIDTH, ROWS = 8, 192, 64


class Step(nn.Graph):
    def __init__(self, model: nn.Module, zero: int, micro_batches: int) -> None:
        super().__init__()
        self.model = model
        self.add_optimizer(torch.optim.AdamW(model.parameters(), lr=1e-3))
        if zero:
            self.config.enable_zero(stage=zero, shard_min_size=16)
        if micro_batches > 1:
            self.config.set_gradient_accumulation_steps(micro_batches)

    def build(self, x: torch.Tensor) -> torch.Tensor:
        loss = self.model(x).square().mean()
        loss.backward()
        return loss


def job(n: int, zero: int = 0, tp: int = 1, micro_batches: int = 1) -> tuple[Any, ...]:
    torch.manual_seed(0)
    place = torch.placement("cpu", torch.arange(n).reshape(n // tp, tp).tolist())
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU())]
    model = nn.Sequential(*layers).to_global(place, [B, B])
    if tp > 1:
        for k in range(0, 2 * LAYERS, 4):
            model[k].to_global(sbp=[B, S0])
            model[k + 2].weight = nn.Parameter(model[k + 2].weight.detach().to_global(sbp=[B, S1]))
    x = torch.randn(ROWS, WIDTH).to_global(place, [B, B]).to_global(sbp=[S0, B])
    return Step(model, zero, micro_batches), x


@contextlib.contextmanager
def in_line() -> Iterator[None]:
    nccl.enable_use_compute_stream(True)
    try:
        yield
    finally:
        nccl.enable_use_compute_stream(False)


def losses(options: dict[str, int], n: int) -> tuple[list[float], list[list[float]]]:
    graph, x = job(n, **options)
    found = [graph(x).to_global(sbp=[B, B]).to_local().mean().item() for _ in range(4)]
    return found, [p.to_global(sbp=[B, B]).to_local().flatten()[:50].tolist() for p in graph.model.parameters()]


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize(
    "options",
    [{}, {"zero": 1}, {"zero": 2}, {"zero": 3}, {"zero": 3, "micro_batches": 2}, {"tp": 2}, {"tp": 2, "zero": 2}],
    ids=str,
)
def test_streams_change_no_bit(options: dict[str, int], n: int) -> None:
    with in_line():
        want = run_ranks(n, losses, options, n)
    assert run_ranks(n, losses, options, n) == want
    assert want[0][0][-1] < want[0][0][0]


def cluster(bandwidth: float) -> Cluster:
    return Cluster("slow link", 1, 4, 1e11, 1e12, 1e9, Link(0.0, bandwidth), Link(0.0, bandwidth))


@pytest.mark.parametrize("zero", [0, 1, 2])
def test_a_slow_link_hides_behind_the_backward(zero: int) -> None:
    # All gradients take half the time of a backward: what is reduced last is all that cannot be hidden.
    quick = dry_run(job, 4, zero, cluster=cluster(1e15))
    sent = max(r["sent"] for r in quick.ranks)
    slow = cluster(sent / (quick.step_seconds / 3))
    found = dry_run(job, 4, zero, cluster=slow)
    with in_line():
        plain = dry_run(job, 4, zero, cluster=slow)
    for rank, before in zip(found.ranks, plain.ranks, strict=True):
        moving = rank["hidden"] + rank["communication"]
        assert before["hidden"] == 0
        # What a stream packs counts as communication, in line as work.
        assert moving == pytest.approx(before["communication"], rel=0.1)
        assert rank["sent"] == before["sent"]
        # Parameters of stages 1 and 2 are gathered a module ahead in the forward.
        assert rank["hidden"] >= 0.8 * moving
    assert found.step_seconds < plain.step_seconds - 0.25 * moving


def test_gathers_of_zero_3_come_a_module_ahead() -> None:
    quick = dry_run(job, 4, 3, cluster=cluster(1e15))
    sent = max(r["sent"] for r in quick.ranks)
    slow = cluster(sent / (quick.step_seconds / 3))
    found = dry_run(job, 4, 3, cluster=slow)
    with in_line():
        plain = dry_run(job, 4, 3, cluster=slow)
    rank = found.ranks[0]
    assert rank["hidden"] >= 0.8 * (rank["hidden"] + rank["communication"])
    # One module more is gathered at a time, and one bucket of gradients waits.
    layer = WIDTH * (WIDTH + 1) * 4
    (here,), (before,) = found.classes, plain.classes
    assert here["memory"]["activations"] + here["memory"]["gradients"] <= (
        before["memory"]["activations"] + before["memory"]["gradients"] + 4 * layer
    )


class Untied(GPT2):
    def __init__(self, config: GPT2Config) -> None:
        super().__init__(config)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.head(hidden)


def gpt(zero: int) -> tuple[Any, ...]:
    """Blocks of modules whose weights have unlike sizes and layouts."""
    torch.manual_seed(0)
    config = GPT2Config(vocabulary=1024, n_positions=64, n_layers=8, n_heads=8, width=512, dropout=0.0)
    layout = ParallelLayout(dp=4)
    model = layout.place(Untied(config))
    step = Step(model, 0, 1)
    if zero:
        step.config.enable_zero(stage=zero)
    return step, *layout.batch(torch.zeros(32, 64, dtype=torch.int64))


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_blocks_hide_the_gathers_of_their_modules(zero: int) -> None:
    quick = dry_run(gpt, zero, cluster=cluster(1e15))
    sent = max(r["sent"] for r in quick.ranks)
    rank = dry_run(gpt, zero, cluster=cluster(sent / (quick.step_seconds / 3))).ranks[0]
    assert rank["hidden"] >= 0.85 * (rank["hidden"] + rank["communication"])


def test_zero_3_holds_two_gathered_layers_more() -> None:
    (whole,), (sliced,) = dry_run(gpt, 0, cluster=cluster(1e12)).classes, dry_run(gpt, 3, cluster=cluster(1e12)).classes
    layer = 4 * 12 * 512**2
    persistent = ("parameters", "optimizer states")
    assert sum(sliced["memory"][k] for k in persistent) <= 1.1 / 4 * sum(whole["memory"][k] for k in persistent)
    beside = [c["peak"] - sum(c["memory"][k] for k in (*persistent, "gradients")) for c in (whole, sliced)]
    assert beside[1] <= beside[0] + 2 * layer


def test_the_timeline_shows_streams() -> None:
    found = dry_run(job, 4, cluster=cluster(1e9))
    streams = {(kind, stream) for _, stream, _, _, kind, _ in found.spans}
    assert ("compute", 0) in streams and any(kind == "communication" and stream > 0 for kind, stream in streams)
    assert "hidden" in found.table()
