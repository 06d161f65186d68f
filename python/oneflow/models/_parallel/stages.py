"""Pipeline stages of language models: tokens on the first ranks, logits on the last, blocks as a schedule places them.

Each rank calls the whole model, and what lies on other ranks is computed there alone. So everything is made of ops on
global tensors, or a program on parts that knows of ranks without a part (``parts.py``).
"""

from __future__ import annotations

import copy
from typing import Any

import oneflow as torch
from oneflow import Tensor, nn
from oneflow.distributed.pipelining import make_table
from oneflow.models._parallel.axes import Axes
from oneflow.models.generation import Generator

__all__ = ["gather_states", "split_stages", "stage_ranks"]


def stage_ranks(schedule: str, n_ranks: int, n_stages: int, n_micro_batches: int) -> list[int]:
    """Which row of a schedule's table has each stage.

    Raises:
        ValueError: an unknown schedule, or numbers that it does not take.
    """
    table = make_table(schedule, n_ranks, n_micro_batches, n_stages // n_ranks)
    return [table.rank_of(stage) for stage in range(n_stages)]


def split_stages(model: Any, placements: list[torch.placement]) -> list[nn.ModuleList]:
    """Name the stage of each part of a model, and let inputs move there; return the parts of each stage.

    Args:
        placements: of each stage.

    Raises:
        ValueError: a model without ``token``, ``blocks``, ``norm`` and a ``head`` of its own, or fewer blocks than
            stages.
    """
    whole: Any = model
    kind, n = type(model).__name__, len(placements)
    if not isinstance(model, Generator) or not all(hasattr(model, name) for name in ("token", "blocks", "norm")):
        raise ValueError(f"{kind} is no language model of token, blocks, norm and head; pp cuts these into stages")
    if getattr(whole, "head", None) is None:
        raise ValueError(
            f"{kind}: logits come from the table of tokens, which pp would need on the first and the last stage; "
            "build it with tied=False"
        )
    blocks = list(whole.blocks)
    if len(blocks) < n:
        raise ValueError(f"{kind}: {len(blocks)} blocks for {n} pipeline stages; each needs one")
    parts: list[list[nn.Module]] = [[] for _ in placements]
    for i, block in enumerate(blocks):
        parts[i * n // len(blocks)].append(block)
    tables = {id(placement): copy.deepcopy(whole.rotary) for placement in placements}
    # Modules of the model, so that whoever looks for its tensors finds them.
    whole.rotary_of_stages = nn.ModuleList(tables.values())
    for stage, (modules, placement) in enumerate(zip(parts, placements, strict=True)):
        rotary = tables[id(placement)]
        for block in modules:
            block.register_forward_pre_hook(_Enter(placement, rotary))
        modules += [whole.token] * (stage == 0) + [whole.norm, whole.head] * (stage == n - 1)
        for module in modules:
            module.to(nn.graph.GraphModule).set_stage(stage, placement)
    for stage, placement in enumerate(placements):
        parts[stage].append(tables[id(placement)])
    parts[0].append(whole.rotary)
    return [nn.ModuleList(modules) for modules in parts]


def gather_states(model: Any, axes: Axes) -> None:
    """Gather states that are split along the sequence before the head: no layout describes the rows of its gradient."""

    def before(head: nn.Module, args: Any) -> Any:
        return (axes.changed(args[0], "tp", torch.sbp.broadcast), *args[1:])

    model.head.register_forward_pre_hook(before)


class _Enter:
    """Moves what enters a block to its ranks; positions are there already."""

    def __init__(self, placement: torch.placement, rotary: nn.Module) -> None:
        self.placement, self.rotary = placement, rotary

    def __call__(self, block: nn.Module, args: Any) -> Any:
        x, positions, *rest = args
        if x.placement != self.placement:
            x = x.to_global(placement=self.placement, sbp=_complete(x))
        if positions[0].placement != self.placement:
            positions = self.rotary(0, positions[0].shape[-2])
        return (x, positions, *rest)


def _complete(x: Tensor) -> list[Any]:
    """The layout of ``x``, sums computed."""
    return [torch.sbp.broadcast if s == torch.sbp.partial_sum else s for s in x.sbp]
