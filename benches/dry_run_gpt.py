"""The GPTs of `benches.dry_run`: over copies and parts of a model, and in stages of a pipeline."""

from __future__ import annotations

from typing import Any

import oneflow as torch
import oneflow.nn.functional as F
from oneflow import nn
from oneflow.models import GPT2, GPT2Config, ParallelLayout, tensor_parallel, vocabulary_parallel_cross_entropy
from oneflow.models.gpt2 import Block
from oneflow.utils.checkpoint import checkpoint

GPT3 = GPT2Config(vocabulary=51200, n_positions=2048, n_layers=96, n_heads=96, width=12288, dropout=0.0)


class UntiedGPT(GPT2):
    """With a table of its own for the logits: ZeRO gathers a tied one once more, for the head."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(config)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.head(hidden)


class Stage(nn.Module):
    """Blocks whose backward computes their forward again; the first stage has the tables, the last one the loss."""

    def __init__(self, config: GPT2Config, number: int, n_stages: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layers // n_stages)])
        self.is_first, self.is_last = number == 0, number == n_stages - 1
        if self.is_first:
            self.token = nn.Embedding(config.vocabulary, config.width)
            self.position = nn.Embedding(config.n_positions, config.width)
        if self.is_last:
            self.norm = nn.LayerNorm(config.width)
            self.head = nn.Linear(config.width, config.vocabulary, bias=False)
            self.loss: Any = F.cross_entropy

    def forward(self, x: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        if self.is_first:
            x = self.token(x) + self.position.weight
        for block in self.blocks:
            x = checkpoint(block, x, None, True, None, use_reentrant=False)
        if not self.is_last:
            return x
        logits = self.head(self.norm(x))
        return self.loss(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


class Stages(nn.Module):
    def __init__(self, config: GPT2Config, n_stages: int) -> None:
        super().__init__()
        self.stages = nn.ModuleList([Stage(config, number, n_stages) for number in range(n_stages)])

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        for stage in self.stages[:-1]:
            x = stage(x)
        return self.stages[-1](x, targets)


class Train(nn.Graph):
    def __init__(self, model: nn.Module, zero: int = 0, amp: bool = False, micro_batches: int = 1) -> None:
        super().__init__()
        self.model = model
        self.add_optimizer(torch.optim.AdamW(model.parameters(), lr=1e-4))
        if zero:
            self.config.enable_zero(stage=zero)
        if amp:
            self.config.enable_amp(dtype=torch.bfloat16)
        if micro_batches > 1:
            self.config.set_gradient_accumulation_steps(micro_batches)
            self.config.set_pipeline_schedule("1F1B")

    def build(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss = self.model(tokens, targets)
        loss.backward()
        return loss


def gpt(config: GPT2Config, dp: int, tp: int, batch: int, zero: int, recompute: bool = False, amp: bool = False) -> Any:
    """A step of a GPT under a layout, and its inputs."""
    layout = ParallelLayout(dp=dp, tp=tp, recompute=recompute)
    torch.manual_seed(0)
    model = layout.place(UntiedGPT(config))
    tokens = torch.zeros(batch, config.n_positions, dtype=torch.int64)
    return (Train(model, zero, amp), *layout.batch(tokens, tokens))


def staged(config: GPT2Config, dp: int, tp: int, pp: int, micro_batches: int, rows: int = 1, dtype: Any = None) -> Any:
    """A step of a GPT in stages, so many sequences a copy and micro-batch, and its inputs.

    With ``dtype`` parameters have it, else they have float32 and products bfloat16.
    """
    model, n = Stages(config, pp), dp * tp
    if dtype is not None:
        model.to(dtype)
    ranks = torch.arange(pp * n).reshape(pp, dp, tp).tolist()
    places = [torch.placement("cpu", mesh) for mesh in ranks]
    for number, (stage, place) in enumerate(zip(model.stages, places, strict=True)):
        tensor_parallel(stage, place)
        if tp > 1 and stage.is_last:
            stage.head.to_global(sbp=[torch.sbp.broadcast, torch.sbp.split(0)])
            stage.loss = vocabulary_parallel_cross_entropy
        stage.to(nn.graph.GraphModule).set_stage(number, place)
    sizes, layout = (dp * micro_batches * rows, config.n_positions), [torch.sbp.split(0), torch.sbp.broadcast]
    tokens, targets = (
        torch.zeros(*sizes, dtype=torch.int64, placement=place, sbp=layout) for place in (places[0], places[-1])
    )
    return Train(model, 0, dtype is None, micro_batches), tokens, targets
