"""Sequence parallelism: what tensor parallelism leaves whole is split along the sequence over the same ranks.

Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022. Between the networks of a
block each rank has its part of the sequence. An all-gather before the first products and a reduce-scatter after the
second ones take the place of an all-reduce, and send as many bytes.
"""

from __future__ import annotations

from typing import Any

import oneflow as torch
from oneflow import Tensor, nn
from oneflow.models._parallel.axes import Axes, blocks_of
from oneflow.models.layers import MLP, Attention, GatedMLP

__all__ = ["one_sequence", "split_entries", "split_sequence"]


def one_sequence(model: nn.Module, what: str) -> None:
    """Check that the blocks of ``model`` attend along one sequence.

    Raises:
        ValueError: there are none, or they attend within windows or images.
    """
    blocks = blocks_of(model)
    nested = [
        name
        for block in blocks
        for name, module in block.named_modules()
        if isinstance(module, Attention) and "." in name
    ]
    if not blocks or nested:
        why = f"attends within parts of its input ({nested[0]})" if nested else "has no blocks with attention"
        raise ValueError(f"{type(model).__name__} {why}; {what} needs blocks that attend along one sequence")


def split_sequence(model: nn.Module, axes: Axes) -> None:
    """Install sequence parallelism over the axis "tp" in a model that ``tensor_parallel`` has split."""
    split_entries(model, axes, "tp")

    def gathered(x: Any) -> Any:
        if isinstance(x, Tensor) and x.is_global and axes.of(x, "tp") == torch.sbp.split(1):
            return axes.changed(x, "tp", torch.sbp.broadcast)
        return x

    def before(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        memory = kwargs.get("memory")
        if memory is not None:
            kwargs = {**kwargs, "memory": gathered(memory)}
        # The states, and those of the encoder for attention across.
        n = 2 if isinstance(module, Attention) else 1
        return (*map(gathered, args[:n]), *args[n:]), kwargs

    def after(module: nn.Module, args: Any, y: Tensor) -> Tensor:
        return axes.changed(y, "tp", torch.sbp.split(1)) if _is_split(y, axes.size("tp")) else y

    for block in blocks_of(model):
        for module in block.modules():
            if isinstance(module, Attention | MLP | GatedMLP):
                module.register_forward_pre_hook(before, with_kwargs=True)
                second = module.out if isinstance(module, Attention) else module.down
                second.register_forward_hook(after)


def split_entries(model: nn.Module, axes: Axes, axis: str) -> None:
    """Split what enters each block along the sequence over an axis; (batch, time, width), first argument."""

    def before(module: nn.Module, args: Any) -> Any:
        x = args[0]
        if not _is_split(x, axes.size(axis)):
            return None
        return (axes.changed(x, axis, torch.sbp.split(1)), *args[1:])

    for block in blocks_of(model):
        block.register_forward_pre_hook(before)


def _is_split(x: Tensor, n_ranks: int) -> bool:
    """Whether a tensor is long enough to give each rank a part; single tokens of generation are not."""
    return x.is_global and x.dim() == 3 and x.shape[1] >= n_ranks
