"""Transformers over several ranks: batches split over some, heads and hidden units over others (Shoeybi et al.,
"Megatron-LM", 2019).

The models' code does not change: their weights become global tensors, and the rules of ops do the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import oneflow as torch
from oneflow import Tensor, nn
from oneflow.models.layers import MLP, Attention, GatedMLP
from oneflow.utils.checkpoint import checkpoint

__all__ = ["ParallelLayout", "tensor_parallel"]

ModelT = TypeVar("ModelT", bound=nn.Module)


@dataclass(frozen=True)
class ParallelLayout:
    """How a transformer of the library lies over ``dp * tp`` ranks, in one line.

    ``place`` lays the model out, ``batch`` its inputs; the training loop, eager or in an ``nn.Graph``, is that of one
    rank. Neighbouring ranks share a model: with ``dp=2, tp=2`` ranks 0 and 1 have the parts of one copy, 2 and 3 of
    the other. In a graph ``config.enable_zero`` also splits what the copies hold.

    Args:
        dp: the number of copies of the model, which divides the batch.
        tp: the number of ranks that share a copy, which divides the heads and the hidden units.
        recompute: keep only the inputs of the blocks, whose backward computes the rest again: less memory for a third
            more work.
        device: the kind of device, "cpu" or "cuda".

    Raises:
        ValueError: a number of ranks below 1, or not that of the job.

    Example::

        >>> from oneflow.models import GPT2, GPT2Config, ParallelLayout
        >>> layout = ParallelLayout(dp=1, tp=1, recompute=True)
        >>> model = layout.place(GPT2(GPT2Config(50, 16, n_layers=1, n_heads=2, width=8)))
        >>> tokens, targets = layout.batch(oneflow.tensor([[1, 2]]), oneflow.tensor([[2, 3]]))
        >>> model(tokens, targets).is_global
        True
    """

    dp: int = 1
    tp: int = 1
    recompute: bool = False
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("dp", "tp"):
            if getattr(self, name) < 1:
                raise ValueError(f"ParallelLayout: {name} must be at least 1, got {getattr(self, name)}")

    @property
    def placement(self) -> torch.placement:
        """The ranks of the job, as ``dp`` rows of ``tp``."""
        n_ranks = len(torch.placement.all(self.device).ranks)
        if self.dp * self.tp != n_ranks:
            raise ValueError(f"ParallelLayout: dp={self.dp} times tp={self.tp} is not the job's {n_ranks} ranks")
        rows = [list(range(first, first + self.tp)) for first in range(0, n_ranks, self.tp)]
        return torch.placement(self.device, rows)

    def place(self, model: ModelT) -> ModelT:
        """Make the weights of ``model`` global, those of rank 0. Make the optimizer afterwards.

        Raises:
            ValueError: heads or hidden units that ``tp`` does not divide, or a model without them.
        """
        tensor_parallel(model, self.placement)
        if self.recompute:
            for block in _blocks(model):
                _recompute(block)
        return model

    def batch(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Make the batch that every rank has read global: its rows split over the copies.

        Args:
            tensors: local, of the same number of rows, the same on all ranks.

        Raises:
            ValueError: rows that ``dp`` does not divide.
        """
        for x in tensors:
            if x.dim() == 0 or x.shape[0] % self.dp:
                raise ValueError(f"ParallelLayout: a batch of shape {tuple(x.shape)} does not divide by dp={self.dp}")
        placement, whole, split = self.placement, torch.sbp.broadcast, torch.sbp.split(0)
        return tuple(x.to_global(placement, [whole, whole]).to_global(sbp=[split, whole]) for x in tensors)


def tensor_parallel(model: ModelT, placement: torch.placement) -> ModelT:
    """Make the weights of ``model`` global over ``placement``, those of rank 0.

    Each rank has its part of the heads and of the hidden units; everything else is whole on each. Make the optimizer
    afterwards.

    Each block then sums activations over ranks twice forward and twice backward, and moves no weight.

    Args:
        model: with attention and networks of ``oneflow.models.layers``, the same sizes on each rank.
        placement: ranks, whose number along the last axis divides the heads and the hidden units. Over other axes the
            weights are whole, and batches may be split.

    Raises:
        ValueError: the heads or hidden units do not divide, or the model has none.

    Example::

        >>> from oneflow.models import GPT2, GPT2Config, tensor_parallel
        >>> placement = oneflow.placement("cpu", [0])
        >>> model = tensor_parallel(GPT2(GPT2Config(50, 16, 1, n_heads=2, width=8)), placement)
        >>> model.blocks[0].mlp.up.weight.sbp
        (oneflow.sbp.split(dim=0),)
    """
    *others, n_ranks = placement.ranks.shape
    whole = [torch.sbp.broadcast] * len(others)
    for name, module in model.named_modules():
        sizes: tuple[int, ...] = ()
        if isinstance(module, Attention):
            sizes = (module.n_heads, module.n_kv_heads)
        elif isinstance(module, MLP | GatedMLP):
            sizes = (module.up.out_features,)
        if any(size % n_ranks for size in sizes):
            raise ValueError(f"{name}: {' and '.join(map(str, sizes))} do not divide by {n_ranks} ranks")
    if n_ranks > 1 and not any(isinstance(module, Attention | MLP | GatedMLP) for module in model.modules()):
        kind = type(model).__name__
        raise ValueError(f"{kind} has no attention or feed-forward network to split over {n_ranks} ranks")
    model.to_global(placement, [*whole, torch.sbp.broadcast])
    rows, columns = [*whole, torch.sbp.split(0)], [*whole, torch.sbp.split(1)]
    for module in model.modules():
        first: tuple[Any, ...] = ()
        if isinstance(module, Attention):
            first, second = (module.query, module.key, module.value), module.out
        elif isinstance(module, MLP):
            first, second = (module.up,), module.down
        elif isinstance(module, GatedMLP):
            first, second = (module.gate, module.up), module.down
        # Rows of outputs in the first, columns of inputs in the second: one sum over ranks for the pair.
        for linear in first:
            linear.to_global(sbp=rows)
        if first:
            second.weight = nn.Parameter(second.weight.detach().to_global(sbp=columns))
    return model


def _blocks(model: nn.Module) -> list[nn.Module]:
    """The modules of lists, which repeat, with attention inside."""
    of_lists = [block for module in model.modules() if isinstance(module, nn.ModuleList) for block in module]
    blocks = [block for block in of_lists if any(isinstance(part, Attention) for part in block.modules())]
    inner = {id(part) for block in blocks for part in block.modules() if part is not block}
    return [block for block in blocks if id(block) not in inner]


def _recompute(block: nn.Module) -> None:
    forward = block.forward

    def again(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    block.forward = again  # type: ignore[method-assign]
