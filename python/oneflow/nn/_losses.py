"""Losses, composed of ops; class targets of cross entropy go through a fused one."""

from __future__ import annotations

import warnings
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow


def legacy_reduction(size_average: bool | None, reduce: bool | None, reduction: str = "mean") -> str:
    """Translate the two deprecated flags into ``reduction``."""
    if size_average is None and reduce is None:
        return reduction
    average = size_average is None or size_average
    result = "none" if reduce is not None and not reduce else "mean" if average else "sum"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{result}' instead.", stacklevel=3
    )
    return result


def _reduce(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")


def _warn_of_broadcast(input: Tensor, target: Tensor) -> None:
    if target.size() != input.size():
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). "
            "This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=3,
        )


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``(input - target) ** 2``, reduced by "mean", "sum" or "none"."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    _warn_of_broadcast(input, target)
    difference = input - target
    loss = difference * difference
    if weight is None:
        return _reduce(loss, reduction)
    loss = loss * weight
    return loss.sum() / weight.expand(loss.shape).sum() if reduction == "mean" else _reduce(loss, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``|input - target|``, reduced by "mean", "sum" or "none"."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    _warn_of_broadcast(input, target)
    loss = (input - target).abs()
    if weight is None:
        return _reduce(loss, reduction)
    loss = loss * weight
    return loss.sum() / weight.expand(loss.shape).sum() if reduction == "mean" else _reduce(loss, reduction)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of int64 ``target`` (N, *) under log probabilities ``input`` (N, C, *).

    Without batch the shapes are (C,) and (). "mean" divides by the sum of the weights that took part.

    Raises:
        ValueError, RuntimeError: shapes do not fit.
        IndexError: a class is out of range.
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    class_dim = _check_classes("nll_loss", input, target, weight)
    kept = target != ignore_index
    index = target.masked_fill(kept.logical_not(), 0)
    loss = input.gather(class_dim, index.unsqueeze(class_dim)).squeeze(class_dim).neg()
    factor = kept.to(loss.dtype) if weight is None else weight[index] * kept.to(loss.dtype)
    loss = (loss * factor).masked_fill(kept.logical_not(), 0)
    if reduction == "mean":
        return loss.sum() / factor.sum()
    return _reduce(loss, reduction)


def _check_classes(op: str, input: Tensor, target: Tensor, weight: Tensor | None) -> int:
    if input.dim() < 1:
        raise ValueError(f"Expected 1 or more dimensions (got {input.dim()})")
    class_dim = 0 if input.dim() == 1 else 1
    expected = [*input.shape[:class_dim], *input.shape[class_dim + 1 :]]
    if input.dim() > 1 and target.dim() > 0 and input.shape[0] != target.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0]})."
        )
    if list(target.shape) != expected:
        raise RuntimeError(f"{op}: expected a target of size {expected}, got {list(target.shape)}")
    if target.dtype != oneflow.int64:
        raise RuntimeError(f"{op}: expected target of dtype int64, got {target.dtype}")
    if weight is not None and list(weight.shape) != [input.shape[class_dim]]:
        raise RuntimeError(
            f"{op}: weight tensor should be defined either for all {input.shape[class_dim]} classes or no classes "
            f"but got weight tensor of shape: {list(weight.shape)}"
        )
    return class_dim


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy between logits ``input`` (N, C, *) and ``target``.

    Args:
        input: logits, (C,), (N, C) or (N, C, *).
        target: int64 classes without the class dimension, or floating probabilities of the input's shape.
        weight: a factor per class, (C,).
        ignore_index: class targets with this value count nothing.
        reduction: "mean" (over the weights that took part; with probabilities over N and *), "sum" or "none".
        label_smoothing: share of the target spread evenly over all classes, within [0, 1].

    Raises:
        ValueError, RuntimeError: shapes, dtypes or options do not fit.
        IndexError: a class is out of range.

    Example::

        >>> F.cross_entropy(oneflow.zeros(2, 4), oneflow.tensor([1, 3]))
        tensor(1.3863)
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if target.is_floating_point():
        return _with_probabilities(input, target, weight, reduction, label_smoothing)
    class_dim = _check_classes("cross_entropy", input, target, weight)
    n_classes = input.shape[class_dim]
    # Rows of logits: the fused op holds no probabilities, and its index check is the kernel's.
    # Positions of size one need no transposition.
    one_each = input.dim() > 2 and input.shape[0] * n_classes == input.numel() > 0
    rows = input if input.dim() == 2 or one_each else input.movedim(class_dim, -1)
    rows = rows.reshape(-1, n_classes)
    classes = target.reshape(-1)
    losses, _ = _oneflow._C.native_cross_entropy(rows, classes, weight, ignore_index, label_smoothing)
    if reduction == "none":
        return losses.reshape(target.shape)
    total = losses.sum()
    if reduction != "mean":
        return total
    kept = classes != ignore_index
    if weight is None:
        return total / kept.sum()
    return total / (weight[classes.masked_fill(kept.logical_not(), 0)] * kept.to(input.dtype)).sum()


def _with_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float
) -> Tensor:
    if target.shape != input.shape:
        raise RuntimeError(
            "cross_entropy: class probabilities need the shape of the input, "
            f"got target {list(target.shape)} and input {list(input.shape)}"
        )
    class_dim = 0 if input.dim() == 1 else 1
    n_classes = input.shape[class_dim]
    if label_smoothing > 0.0:
        target = target * (1.0 - label_smoothing) + label_smoothing / n_classes
    loss = _class_weighted(input.log_softmax(class_dim) * target, weight, class_dim).neg()
    if reduction == "none":
        return loss.sum(class_dim)
    if reduction == "mean":
        return loss.sum() / max(input.numel() // max(n_classes, 1), 1)
    return _reduce(loss, reduction)


def _class_weighted(values: Tensor, weight: Tensor | None, class_dim: int) -> Tensor:
    if weight is None:
        return values
    shape: list[Any] = [1] * values.dim()
    shape[class_dim] = -1
    return values * weight.view(shape)
