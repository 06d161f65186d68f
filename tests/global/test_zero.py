"""GraphConfig.enable_zero: the losses of a graph without it, slices in place of replicas, and what travels."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import oneflow as torch
import oneflow.nn as nn
import pytest
from oneflow import sbp

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "gpt"))

from model import GPT, GPTConfig

CONFIG = GPTConfig(vocabulary=50, block_size=16, n_layers=2, n_heads=4, width=32, dropout=0.0)


def batches(n: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(0, CONFIG.vocabulary, (8, CONFIG.block_size + 1), generator=generator) for _ in range(n)]


def train(zero: dict[str, Any] | None, micro: int = 1, clip: bool = True, n_steps: int = 4) -> dict[str, Any]:
    torch.manual_seed(0)
    placement = torch.placement.all("cpu")
    model = GPT(CONFIG).double().to_global(placement, sbp.broadcast)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)

    class Step(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.add_optimizer(optimizer)
            self.config.set_gradient_accumulation_steps(micro)
            if zero is not None:
                self.config.enable_zero(True, **zero)

        def build(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            loss = self.model(tokens, targets)
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            return loss

    graph, losses = Step(), []
    for windows in batches(n_steps):
        whole = [x.to_global(placement, sbp.broadcast) for x in (windows[:, :-1], windows[:, 1:])]
        parts = [x.to_global(sbp=sbp.split(0)) for x in whole]
        torch.distributed.reset_wire_counters()
        losses.append(graph(*parts).mean().item())
    sent = torch.distributed.wire_bytes()
    states = [t for s in optimizer.state.values() for t in s.values() if t.dim()]
    whole = {k: v.to_global(sbp=sbp.broadcast).to_local() for k, v in model.state_dict().items()}
    return {
        "losses": losses,
        "sent": sent,
        "states": sum(t.to_local().numel() for t in states),
        "parameters": sum(p.to_local().numel() for p in model.parameters()),
        "all": sum(p.numel() for p in model.parameters()),
        "weights": torch.cat([v.reshape(-1) for v in whole.values()]).tolist(),
        "eager": model(*parts).item(),
    }


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_losses_slices_and_bytes(n: int, stage: int) -> None:
    expected = torch.testing.run_ranks(n, train, None)[0]
    assert expected["states"] == 2 * expected["all"]
    for found in torch.testing.run_ranks(n, train, {"stage": stage, "shard_min_size": 0}):
        assert found["losses"] == pytest.approx(expected["losses"], rel=1e-9)
        assert found["weights"] == pytest.approx(expected["weights"], rel=1e-7, abs=1e-9)
        assert found["eager"] == pytest.approx(expected["eager"], rel=1e-9)
        assert found["states"] <= 1.1 * 2 * expected["all"] / n
        assert found["parameters"] <= 1.1 * expected["all"] / n
        whole = 8 * expected["all"] * (n - 1) / n
        gathers = {1: 1, 2: 1, 3: 2}[stage]
        assert found["sent"].get("all_gather", 0) == pytest.approx(gathers * whole, rel=0.15)
        reduced = found["sent"].get("reduce_scatter", 0)
        assert reduced == pytest.approx(whole, rel=0.15) if stage > 1 else reduced == 0


class Tied(nn.Module):
    """A head that is the embedding's table, which another module looks up."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.token, self.hidden = nn.Embedding(16, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = nn.functional.linear(self.hidden(self.token(x)).tanh(), self.token.weight)
        return nn.functional.log_softmax(logits, -1).square().mean()


def train_tied(stage: int | None, n_micro_batches: int) -> tuple[list[float], dict[str, int]]:
    model = Tied().double().to_global(torch.placement.all("cpu"), sbp.broadcast)

    class Step(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.add_optimizer(torch.optim.AdamW(model.parameters(), lr=1e-2))
            self.config.set_gradient_accumulation_steps(n_micro_batches)
            if stage is not None:
                self.config.enable_zero(stage=stage, shard_min_size=0)

        def build(self, x: torch.Tensor) -> torch.Tensor:
            loss = self.model(x)
            loss.backward()
            return loss

    step, losses = Step(), []
    x = torch.arange(64).reshape(8, 8) % 16
    whole = x.to_global(torch.placement.all("cpu"), sbp.broadcast)
    for _ in range(3):
        # Micro-batches are cut from the whole batch, so that inputs are not moved.
        torch.distributed.reset_wire_counters()
        losses.append(step(whole.to_global(sbp=sbp.split(1))).mean().item())
        sent = dict(torch.distributed.wire_bytes())
    return losses, sent


@pytest.mark.parametrize("n_micro_batches", [1, 2])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_tied_weight_is_gathered_for_every_module(stage: int, n_micro_batches: int) -> None:
    n, reference = 2, torch.testing.run_ranks(1, train_tied, None, n_micro_batches)[0][0]
    table, hidden = 16 * 8, 8 * 8 + 8
    for losses, sent in torch.testing.run_ranks(n, train_tied, stage, n_micro_batches):
        assert losses == pytest.approx(reference, rel=1e-9)
        # Stages 1 and 2 gather once a step. Stage 3: the embedding and the hidden layer in both directions; the head's
        # weight stays for its backward.
        gathered = n_micro_batches * (3 * table + 2 * hidden) if stage == 3 else table + hidden
        assert sent["all_gather"] == 8 * gathered * (n - 1) // n
        # Stage 3 adds the gradients of the table's two uses before it reduces them.
        reduced = (table if stage == 3 else 2 * table) + hidden if stage > 1 else 0
        assert sent.get("reduce_scatter", 0) == n_micro_batches * 8 * reduced * (n - 1) // n
        assert sent.get("all_to_all", 0) == 0


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.up(x).tanh())


def train_again(stage: int | None, micro: int) -> tuple[list[float], dict[str, int], float]:
    """A model whose blocks run again in the backward, and its loss in an evaluating graph afterwards."""
    torch.manual_seed(0)
    placement = torch.placement.all("cpu")
    model = nn.Sequential(*[Block() for _ in range(3)]).double().to_global(placement, sbp.broadcast)

    class Step(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            for block in self.model:
                block.to(nn.graph.GraphModule).activation_checkpointing = True
            self.add_optimizer(torch.optim.AdamW(model.parameters(), lr=1e-2))
            self.config.set_gradient_accumulation_steps(micro)
            if stage is not None:
                self.config.enable_zero(stage=stage, shard_min_size=0)

        def build(self, x: torch.Tensor) -> torch.Tensor:
            loss = self.model(x).square().mean()
            loss.backward()
            return loss

    class Evaluate(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def build(self, x: torch.Tensor) -> torch.Tensor:
            return self.model(x).square().mean()

    step, losses, sent = Step(), [], {}
    x = torch.arange(64, dtype=torch.float64).reshape(8, 8).sin().to_global(placement, sbp.broadcast)
    x = x.to_global(sbp=sbp.split(0))
    for _ in range(4):
        torch.distributed.reset_wire_counters()
        losses.append(step(x).mean().item())
        sent = dict(torch.distributed.wire_bytes())
    return losses, sent, Evaluate()(x).item()


@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("stage", [1, 2])
def test_what_runs_again_is_not_gathered_again(stage: int, micro: int) -> None:
    losses, _, evaluated = torch.testing.run_ranks(2, train_again, None, micro)[0]
    for found, sent, after in torch.testing.run_ranks(2, train_again, stage, micro):
        assert found == pytest.approx(losses, rel=1e-9)
        assert after == pytest.approx(evaluated, rel=1e-9)
        assert sent["all_gather"] == 8 * 3 * (2 * 8 * 32 + 8 + 32) // 2


def test_options() -> None:
    expected = torch.testing.run_ranks(2, train, None, 2, False)[0]
    for zero in ({}, {"stage": 1}, {"stage": 3}, {"stage": 3, "shard_restore_level": 0}):
        for found in torch.testing.run_ranks(2, train, zero, 2, False):
            assert found["losses"] == pytest.approx(expected["losses"], rel=1e-9)
            # Vectors stay whole: they have fewer than 1024 elements.
            assert found["all"] < found["states"] < 1.3 * found["all"]

    def refused() -> None:
        class Local(nn.Graph):
            def __init__(self) -> None:
                super().__init__()
                self.model = nn.Linear(2, 2)
                self.add_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))
                self.config.enable_zero()

            def build(self, x: torch.Tensor) -> torch.Tensor:
                loss = self.model(x).sum()
                loss.backward()
                return loss

        with pytest.raises(RuntimeError, match="parameters are local"):
            Local()(torch.ones(1, 2))
        config = Local().config
        for bad in ({"stage": 4}, {"shard_restore_level": 3}, {"shard_min_size": -1}):
            with pytest.raises(ValueError, match="enable_zero"):
                config.enable_zero(**bad)

    torch.testing.run_ranks(2, refused)
