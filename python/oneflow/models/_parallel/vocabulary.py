"""Tables and losses whose words or classes are split over ranks (Shoeybi et al., "Megatron-LM", 2019).

No rank gathers logits: three numbers for each row travel, the largest logit, the sum of exponentials, and the logit of
the target.
"""

from __future__ import annotations

from typing import Any

import oneflow as torch
import oneflow.nn.functional as F
from oneflow import Tensor, nn
from oneflow.autograd.function import Function
from oneflow.models._parallel.axes import Axes
from oneflow.models._parallel.heads import local_copy

__all__ = ["cross_entropy", "split_staged_vocabulary", "split_vocabulary"]


def cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int) -> Tensor:
    """See ``oneflow.models.vocabulary_parallel_cross_entropy``."""
    if not (logits.is_global and targets.is_global) or logits.placement != targets.placement:
        raise ValueError("vocabulary_parallel_cross_entropy: logits and targets must be global over the same ranks")
    if logits.dim() == 0 or logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"vocabulary_parallel_cross_entropy: logits {tuple(logits.shape)} and targets {tuple(targets.shape)} "
            "do not fit: (..., classes) and (...) are needed"
        )
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    sums = [torch.sbp.broadcast if s == torch.sbp.partial_sum else s for s in logits.sbp]
    return _CrossEntropy.apply(logits.to_global(sbp=sums), targets, ignore_index)


class _CrossEntropy(Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, ignore_index: int) -> Tensor:
        last, n_classes = logits.dim() - 1, logits.shape[-1]
        whole = torch.sbp.broadcast
        rows = [whole if s.dim == last else s for s in logits.sbp]
        classes = [torch.sbp.split(0) if s.dim == last else whole for s in logits.sbp]
        targets = targets.to_global(sbp=rows)
        counts = targets != ignore_index
        _checked(targets, n_classes, ignore_index)
        largest = logits.amax(-1).to_global(sbp=rows)
        powers = (logits - largest[..., None]).exp()
        total = powers.sum(-1).to_global(sbp=rows)
        places: dict[str, Any] = {"placement": logits.placement, "sbp": classes}
        numbers = torch.arange(n_classes, **places)
        hit = numbers == targets[..., None]
        picked = torch.where(hit, logits, 0.0).sum(-1).to_global(sbp=rows)
        everywhere = [whole] * len(rows)
        n = counts.to(logits.dtype).sum().to_global(sbp=everywhere)
        loss = torch.where(counts, total.log() + largest - picked, 0.0).sum().to_global(sbp=everywhere) / n
        ctx.save_for_backward(powers, total, hit, counts, n)
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        powers, total, hit, counts, n = ctx.saved_tensors
        scale = counts * (grad.to_global(sbp=n.sbp) / n)
        return (powers / total[..., None] - hit.to(powers.dtype)) * scale[..., None], None, None


def _checked(targets: Tensor, n_classes: int, ignore_index: int) -> None:
    if torch._oneflow._is_tracing() or torch.distributed.get_rank() not in targets.placement.ranks:
        return
    own = targets.to_local()
    wrong = (own != ignore_index) & ((own < 0) | (own >= n_classes))
    if bool(wrong.any()):
        raise IndexError(f"Target {int(own[wrong].flatten()[0])} is out of bounds for {n_classes} classes.")


def split_vocabulary(model: Any, axes: Axes, sequence: bool) -> None:
    """Split the table of tokens, and the head if it has its own, by words over the axis "tp".

    Args:
        sequence: the states between blocks are split along the sequence over that axis.

    Raises:
        ValueError: a model without ``token``, ``logits`` and ``loss``.
    """
    if not all(hasattr(model, name) for name in ("token", "logits", "loss")):
        raise ValueError(f"{type(model).__name__} is no language model: vocabulary_parallel has nothing to split")
    tables = [model.token] if getattr(model, "head", None) is None else [model.token, model.head]
    for table in tables:
        split = axes.layout(tp=torch.sbp.split(0))
        table.weight = nn.Parameter(table.weight.detach().to_global(sbp=split), table.weight.requires_grad)
    logits = model.logits
    model.token.forward = lambda ids: _looked_up(ids, model.token.weight, axes, sequence)
    model.logits = lambda hidden: logits(axes.changed(hidden, "tp", torch.sbp.broadcast))


def split_staged_vocabulary(model: Any, first: Axes, last: Axes, sequence: bool) -> None:
    """Split the table of tokens on the first stage of a pipeline, and the head on the last, by words over "tp".

    By ops on global tensors alone, which ranks of other stages call too: rows of parts of the table are terms of a sum.

    Args:
        sequence: as for ``split_vocabulary``.
    """
    for table, axes in ((model.token, first), (model.head, last)):
        split = axes.layout(tp=torch.sbp.split(0))
        table.weight = nn.Parameter(table.weight.detach().to_global(sbp=split), table.weight.requires_grad)

    def after(token: nn.Module, args: Any, rows: Tensor) -> Tensor:
        return first.changed(rows, "tp", _states(rows, first, sequence))

    model.token.register_forward_hook(after)


def _looked_up(ids: Tensor, table: Tensor, axes: Axes, sequence: bool) -> Tensor:
    """Rows of a table that is split by rows over "tp": each rank has its own, and zeros for the others."""
    start, _ = table.placement._part(table.shape[0], axes.names.index("tp"), axes.here("tp"))
    part = local_copy(table)
    at = ids.to_local() - start
    inside = (at >= 0) & (at < part.shape[0])
    rows = F.embedding(torch.where(inside, at, 0), part) * inside[..., None].to(part.dtype)
    layout = [torch.sbp.partial_sum if name == "tp" else s for name, s in zip(axes.names, ids.sbp, strict=True)]
    found = axes.enter(rows, layout, [*ids.shape, table.shape[1]])
    return axes.changed(found, "tp", _states(found, axes, sequence))


def _states(rows: Tensor, axes: Axes, sequence: bool) -> Any:
    """The layout over "tp" of the states that enter the first block."""
    is_split = sequence and rows.dim() == 3 and rows.shape[1] >= axes.size("tp")
    return torch.sbp.split(1) if is_split else torch.sbp.broadcast
