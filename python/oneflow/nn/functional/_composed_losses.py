"""Losses composed of ops in Python. Those that are one op are in ``_losses.py``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base.amp import in_float32
from oneflow._base.global_layouts import replicate_like
from oneflow.nn.functional._distances import cosine_similarity, pairwise_distance
from oneflow.nn.functional._losses import (
    check_reduction,
    known_reduction,
    legacy_reduction,
    reduced,
)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Kullback-Leibler divergence of ``target`` (probabilities, or their logarithms) from log probabilities ``input``.

    ``reduction="batchmean"`` sums and divides by the first dimension, as the definition has it.

    Example::

        >>> F.kl_div(oneflow.tensor([[0.5, 0.5]]).log(), oneflow.tensor([[0.25, 0.75]]), reduction="batchmean")
        tensor(0.1308)
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
            "'mean' will be changed to behave the same as 'batchmean' in the next major release.",
            stacklevel=3,
        )
    if reduction != "batchmean":
        check_reduction(reduction)
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = oneflow.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.dim() else loss.sum()
    return reduced(loss, reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of counts ``target`` under a Poisson distribution of mean ``input`` (or ``exp(input)``).

    ``full`` adds Stirling's approximation of ``log(target!)``.

    Example::

        >>> F.poisson_nll_loss(oneflow.tensor([0.0]), oneflow.tensor([2.0]))
        tensor(1.)
    """
    reduction = known_reduction(size_average, reduce, reduction)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        safe = target.masked_fill(target <= 1, 1)
        stirling = safe * safe.log() - safe + 0.5 * (2 * math.pi * safe).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of ``target`` under a Gaussian of mean ``input`` and variance ``var`` (at least ``eps``).

    ``var`` has the input's shape, or one without or with a single last element; or it is one number.

    Raises:
        ValueError: ``var`` is negative or of another shape.

    Example::

        >>> F.gaussian_nll_loss(oneflow.tensor([1.0]), oneflow.tensor([2.0]), oneflow.tensor([1.0]))
        tensor(0.5000)
    """
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * oneflow.ones_like(input)
    elif not _oneflow._is_tracing() and bool((var < 0).any()):
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif not (input.size()[:-1] == var.size()[:-1] and var.size(-1) == 1):
            for a, b in zip(reversed(input.size()), reversed(var.size()), strict=False):
                if a != b and a != 1 and b != 1:
                    raise ValueError("var is of incorrect size")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(reduction + " is not valid")
    # The bound moves the value, not the gradient.
    bound = var.clone()
    with oneflow.no_grad():
        bound.clamp_(min=eps)
    loss = 0.5 * (bound.log() + (input - target) ** 2 / bound)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``log(1 + exp(-target * input))`` for targets 1 and -1; reduced.

    Example::

        >>> F.soft_margin_loss(oneflow.tensor([0.0, 2.0]), oneflow.tensor([-1.0, 1.0]))
        tensor(0.4100)
    """
    reduction = known_reduction(size_average, reduce, reduction)
    return reduced((-target * input).exp().log1p(), reduction)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, -target * (input1 - input2) + margin)`` for targets 1 and -1; reduced.

    Example::

        >>> F.margin_ranking_loss(oneflow.tensor([1.0]), oneflow.tensor([3.0]), oneflow.tensor([1.0]))
        tensor(2.)
    """
    reduction = known_reduction(size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1; reduced.

    Example::

        >>> F.hinge_embedding_loss(oneflow.tensor([0.5, 0.2]), oneflow.tensor([1, -1]))
        tensor(0.6500)
    """
    reduction = known_reduction(size_average, reduce, reduction)
    apart = (margin - input).clamp(min=0).masked_fill(target == 1, 0)
    return reduced(apart + input.masked_fill(target == -1, 0), reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``1 - cos`` of the rows where the target is 1, ``max(0, cos - margin)`` where it is -1; reduced.

    Inputs are (N, D) with targets (N,), or (D,) with ().

    Example::

        >>> F.cosine_embedding_loss(oneflow.tensor([[1.0, 0.0]]), oneflow.tensor([[0.0, 1.0]]), oneflow.tensor([1]))
        tensor(1.)
    """
    reduction = known_reduction(size_average, reduce, reduction)
    if target.dim() not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target.dim() == 1 and (input1.dim() != 2 or input2.dim() != 2):
        raise RuntimeError(
            "1D target tensor expects 2D input tensors, but found inputs with sizes "
            f"{list(input1.size())} and {list(input2.size())}."
        )
    if target.dim() == 0 and (input1.dim() != 1 or input2.dim() != 1):
        raise RuntimeError(
            "0D target tensor expects 1D input tensors, but found inputs with sizes "
            f"{list(input1.size())} and {list(input2.size())}."
        )
    dim = target.dim()
    eps = 1e-12
    product = (input1 * input2).sum(dim)
    lengths = ((input1 * input1).sum(dim) + eps) * ((input2 * input2).sum(dim) + eps)
    cos = product / lengths.sqrt()
    zeros = oneflow.zeros_like(cos)
    near = oneflow.where(target == 1, 1 - cos, zeros)
    far = oneflow.where(target == -1, (cos - margin).clamp(min=0), zeros)
    return reduced(near + far, reduction)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``sum over i != y of max(0, margin - x[y] + x[i]) ** p / C`` of each row; reduced.

    Args:
        input: scores (N, C) or (C,).
        target: int64 classes (N,) or ().
        p: 1 or 2.
        weight: a factor per class, (C,).

    Example::

        >>> F.multi_margin_loss(oneflow.tensor([[0.1, 0.2, 0.4]]), oneflow.tensor([2]))
        tensor(0.5000)
    """
    reduction = known_reduction(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    if input.dim() > 2 or (input.dim() > 0 and input.shape[-1] == 0):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: " + str(list(input.shape))
        )
    rows = input.reshape(1, -1) if input.dim() < 2 else input
    if target.dim() > 1 or target.numel() != rows.shape[0]:
        raise RuntimeError(f"inconsistent target size, expected {rows.shape[0]} but got {list(target.shape)}")
    n_classes = rows.shape[1]
    if weight is not None and weight.numel() != n_classes:
        raise RuntimeError(f"inconsistent weight size, expected {n_classes} but got {list(weight.shape)}")
    y = target.reshape(-1, 1)
    violation = (margin - rows.gather(1, y) + rows).clamp(min=0)
    if p == 2:
        violation = violation * violation
    if weight is not None:
        violation = violation * weight[y]
    others = replicate_like(target, oneflow.arange(n_classes, device=target.device)) != y
    loss = (violation * others).sum(1) / n_classes
    loss = reduced(loss, reduction)
    return loss.reshape(target.shape) if reduction == "none" else loss


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``sum over labels j and others i of max(0, 1 - (x[j] - x[i])) / C`` of each row; reduced.

    The labels of a row are its int64 targets up to the first -1. Shapes: (N, C) and (N, C), or (C,) and (C,).

    Example::

        >>> F.multilabel_margin_loss(oneflow.tensor([[0.1, 0.2, 0.4, 0.8]]), oneflow.tensor([[3, 0, -1, 1]]))
        tensor(0.8500)
    """
    reduction = known_reduction(size_average, reduce, reduction)
    if input.dim() > 2 or (input.dim() > 0 and input.shape[-1] == 0):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: " + str(list(input.shape))
        )
    if input.shape != target.shape and not (input.dim() < 2 and input.numel() == target.numel() and target.dim() < 2):
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    rows = input.reshape(1, -1) if input.dim() < 2 else input
    labels = target.reshape(rows.shape)
    listed = (labels < 0).to(oneflow.int64).cumsum(1) == 0
    index = labels.masked_fill(listed.logical_not(), 0)
    is_label = oneflow.zeros_like(labels).scatter_add(1, index, listed.to(labels.dtype)) > 0
    # (N, label, other)
    violation = (1 - rows.gather(1, index).unsqueeze(2) + rows.unsqueeze(1)).clamp(min=0)
    counts = listed.unsqueeze(2) & is_label.logical_not().unsqueeze(1)
    loss = (violation * counts).sum((1, 2)) / rows.shape[1]
    loss = reduced(loss, reduction)
    return loss.reshape(input.shape[:-1]) if reduction == "none" else loss


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross entropy of logits averaged over the classes (the last dimension); reduced over the rest.

    Example::

        >>> F.multilabel_soft_margin_loss(oneflow.tensor([[0.0, 2.0]]), oneflow.tensor([[0.0, 1.0]]))
        tensor(0.4100)
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    # Of two logarithms, as PyTorch has it: autocast leaves these as they come.
    labels = target.expand_as(input).to(input.dtype)
    loss = -(labels * oneflow.nn.functional.logsigmoid(input) + (1 - labels) * oneflow.nn.functional.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    loss = loss.sum(-1) / input.shape[-1]
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(reduction + " is not valid")
    return reduced(loss, reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, |anchor - positive| - |anchor - negative| + margin)`` in the p-norm; reduced.

    ``swap`` takes the distance of positive and negative where that is smaller.

    Example::

        >>> F.triplet_margin_loss(oneflow.tensor([[0.0, 0.0]]), oneflow.tensor([[0.0, 1.0]]), oneflow.tensor([[0.0,
        ...     0.5]]))
        tensor(1.5000)
    """
    reduction = known_reduction(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = oneflow.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced((margin + near - far).clamp(min=0), reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """As :func:`triplet_margin_loss` with a distance of one's own.

    Example::

        >>> F.triplet_margin_with_distance_loss(oneflow.tensor([[0.0, 0.0]]), oneflow.tensor([[0.0, 1.0]]),
        ...     oneflow.tensor([[0.0, 0.5]]))
        tensor(1.5000)
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = pairwise_distance if distance_function is None else distance_function
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = oneflow.minimum(far, distance(positive, negative))
    return reduced((margin + near - far).clamp(min=0), reduction)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Connectionist temporal classification of ``targets`` under log probabilities ``log_probs`` (T, N, C) or (T, C).

    Args:
        targets: int classes (N, S), or those of all samples one after another.
        input_lengths, target_lengths: (N,), tensors or sequences of ints.
        blank: the class of no label.
        reduction: "mean" (each loss over its target's length, then over the batch), "sum" or "none".
        zero_infinity: zero for losses that are infinite since a target is too long, and their gradients.

    The gradient is that of logits whose log softmax is ``log_probs``. (Graves et al., 2006.)

    Example::

        >>> log_probs = oneflow.zeros(4, 1, 3).log_softmax(-1)
        >>> F.ctc_loss(log_probs, oneflow.tensor([[1, 2]]), oneflow.tensor([4]), oneflow.tensor([2]))
        tensor(0.8432)
    """
    check_reduction(reduction)
    if not log_probs.dtype.is_floating_point:
        raise RuntimeError(f'"ctc_loss_cpu" not implemented for {log_probs.dtype}')
    if targets.dtype.is_floating_point or targets.dtype == oneflow.bool:
        raise RuntimeError(f"ctc_loss: targets must be of an integer dtype, got {targets.dtype}")
    alone = log_probs.dim() == 2
    if alone:
        log_probs = log_probs.unsqueeze(1)
        targets = targets.unsqueeze(0) if targets.dim() == 1 else targets
    lengths = []
    for name, given in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if isinstance(given, Tensor):
            if given.dtype.is_floating_point or given.dtype == oneflow.bool:
                raise RuntimeError(f"{name} must be integral")
            lengths.append(given.reshape(-1).to(device=log_probs.device, dtype=oneflow.int64))
        else:
            values = [given] if isinstance(given, int) else list(given)
            lengths.append(
                replicate_like(log_probs, oneflow.tensor(values, dtype=oneflow.int64, device=log_probs.device))
            )
    if targets.dim() == 2:
        most = targets.shape[1]
    else:
        most = int(lengths[1].max().item()) if lengths[1].numel() else 0
    targets = targets.to(device=log_probs.device, dtype=oneflow.int64)
    n_inputs, n_targets = lengths
    losses, _ = _oneflow._C.native_ctc_loss(log_probs, targets, n_inputs, n_targets, max(most, 0), blank, zero_infinity)
    if zero_infinity:
        losses = oneflow.where(losses == math.inf, oneflow.zeros_like(losses), losses)
    if reduction == "mean":
        return (losses / lengths[1].clamp(min=1).to(losses.dtype)).mean()
    if reduction == "sum":
        return losses.sum()
    return losses.squeeze(0) if alone else losses


__all__ = [
    "cosine_embedding_loss",
    "cosine_similarity",
    "ctc_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "kl_div",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "poisson_nll_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]

# PyTorch's autocast computes losses in float32, but for those that it composes in Python.
_FOLLOWING = (
    "cosine_similarity",
    "gaussian_nll_loss",
    "multilabel_soft_margin_loss",
    "triplet_margin_with_distance_loss",
)
globals().update({name: in_float32(globals()[name]) for name in __all__ if name not in _FOLLOWING})
