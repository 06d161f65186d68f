"""Transformers split over ranks: heads and hidden units (Shoeybi et al., "Megatron-LM", 2019).

Any model of the library runs data-parallel after ``model.to_global(placement, sbp.broadcast)`` with batches that are
split along dimension 0. This file also splits the weights; the models' code does not change.
"""

from __future__ import annotations

from typing import Any, TypeVar

import oneflow as torch
from oneflow import nn
from oneflow.models.layers import MLP, Attention, GatedMLP

__all__ = ["tensor_parallel"]

ModelT = TypeVar("ModelT", bound=nn.Module)


def tensor_parallel(model: ModelT, placement: torch.placement) -> ModelT:
    """Make the weights of ``model`` global over ``placement``, those of rank 0.

    Each rank has its part of the heads and of the hidden units; everything else is whole on each. Make the optimizer
    afterwards.

    Each block then sums activations over ranks twice forward and twice backward, and moves no weight.

    Args:
        model: with attention and networks of ``oneflow.models.layers``, the same sizes on each rank.
        placement: one axis of ranks, whose number divides the heads and the hidden units.

    Raises:
        ValueError: the heads or hidden units do not divide.

    Example::

        >>> from oneflow.models import GPT2, GPT2Config, tensor_parallel
        >>> placement = oneflow.placement("cpu", [0])
        >>> model = tensor_parallel(GPT2(GPT2Config(50, 16, 1, n_heads=2, width=8)), placement)
        >>> model.blocks[0].mlp.up.weight.sbp
        (oneflow.sbp.split(dim=0),)
    """
    n_ranks = len(placement.ranks)
    for name, module in model.named_modules():
        sizes: tuple[int, ...] = ()
        if isinstance(module, Attention):
            sizes = (module.n_heads, module.n_kv_heads)
        elif isinstance(module, MLP | GatedMLP):
            sizes = (module.up.out_features,)
        if any(size % n_ranks for size in sizes):
            raise ValueError(f"{name}: {' and '.join(map(str, sizes))} do not divide by {n_ranks} ranks")
    model.to_global(placement, torch.sbp.broadcast)
    for module in model.modules():
        if isinstance(module, Attention):
            _split((module.query, module.key, module.value), module.out)
        elif isinstance(module, MLP):
            _split((module.up,), module.down)
        elif isinstance(module, GatedMLP):
            _split((module.gate, module.up), module.down)
    return model


def _split(first: tuple[Any, ...], second: Any) -> None:
    """Rows of outputs here, columns of inputs there: one sum over ranks a pair."""
    for linear in first:
        linear.to_global(sbp=torch.sbp.split(0))
    second.weight = nn.Parameter(second.weight.detach().to_global(sbp=torch.sbp.split(1)))
