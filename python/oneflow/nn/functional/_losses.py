"""Losses that are one op of the table each, and what all losses share. The others: ``_composed_losses.py``."""

from __future__ import annotations

import warnings

import oneflow
from oneflow import Tensor, _oneflow


def legacy_reduction(size_average: bool | None, reduce: bool | None, reduction: str = "mean") -> str:
    """Translate the two deprecated flags into ``reduction``."""
    if size_average is None and reduce is None:
        return reduction
    average = size_average is None or size_average
    result = "none" if reduce is not None and not reduce else "mean" if average else "sum"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{result}' instead.", stacklevel=4
    )
    return result


def check_reduction(reduction: str) -> None:
    """Raise ValueError for an unknown reduction, before a loss composed in Python computes."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")


def known_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """As :func:`legacy_reduction`, and checked."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    check_reduction(reduction)
    return reduction


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The losses of all elements as one, or as they are."""
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


def _broadcast(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The two in one shape, with a warning where they have not."""
    if target.size() == input.size():
        return input, target
    warnings.warn(
        f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). "
        "This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size.",
        stacklevel=4,
    )
    shape = oneflow.broadcast_shapes(input.shape, target.shape)
    return input.expand(shape), target.expand(shape)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``(input - target) ** 2``, reduced by "mean", "sum" or "none".

    Example::

        >>> F.mse_loss(oneflow.tensor([1.0, 2.0]), oneflow.tensor([0.0, 4.0]))
        tensor(2.5000)
    """
    input, target = _broadcast(input, target)
    return _oneflow.mse_loss(input, target, legacy_reduction(size_average, reduce, reduction), weight)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``|input - target|``, reduced by "mean", "sum" or "none".

    Example::

        >>> F.l1_loss(oneflow.tensor([1.0, 2.0]), oneflow.tensor([0.0, 4.0]))
        tensor(1.5000)
    """
    input, target = _broadcast(input, target)
    return _oneflow.l1_loss(input, target, legacy_reduction(size_average, reduce, reduction), weight)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """``d ** 2 / (2 beta)`` of ``d = |input - target|`` below ``beta``, ``d - beta / 2`` above; reduced.

    Example::

        >>> F.smooth_l1_loss(oneflow.tensor([0.0, 0.0]), oneflow.tensor([0.5, 3.0]))
        tensor(1.3125)
    """
    input, target = _broadcast(input, target)
    return _oneflow.smooth_l1_loss(input, target, legacy_reduction(size_average, reduce, reduction), beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """``d ** 2 / 2`` of ``d = |input - target|`` below ``delta``, ``delta * (d - delta / 2)`` above; reduced.

    Example::

        >>> F.huber_loss(oneflow.tensor([0.0, 0.0]), oneflow.tensor([0.5, 3.0]))
        tensor(1.3125)
    """
    input, target = _broadcast(input, target)
    return _oneflow.huber_loss(input, target, reduction, delta, weight)


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

    Example::

        >>> F.nll_loss(oneflow.tensor([[0.0, 2.0]]).log_softmax(-1), oneflow.tensor([1]))
        tensor(0.1269)
    """
    return _oneflow.nll_loss(input, target, weight, ignore_index, legacy_reduction(size_average, reduce, reduction))


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
        label_smoothing: share of the target distributed evenly over all classes, within [0, 1].

    Raises:
        ValueError, RuntimeError: shapes, dtypes or options do not fit.
        IndexError: a class is out of range.

    Example::

        >>> F.cross_entropy(oneflow.zeros(2, 4), oneflow.tensor([1, 3]))
        tensor(1.3863)
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    return _oneflow.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Cross entropy between probabilities of one class ``input`` and ``target``, both within [0, 1]; reduced.

    A loss is at most 100, where the logarithm would be infinite.

    Raises:
        RuntimeError: an element of ``input`` is no probability; in eager execution on the CPU only.

    Example::

        >>> F.binary_cross_entropy(oneflow.tensor([0.5, 0.9]), oneflow.tensor([0.0, 1.0]))
        tensor(0.3993)
    """
    loss = _oneflow.binary_cross_entropy(input, target, weight, legacy_reduction(size_average, reduce, reduction))
    _refuse_what_is_no_probability(loss, input)
    return loss


def _refuse_what_is_no_probability(loss: Tensor, input: Tensor) -> None:
    """Raise for an input outside [0, 1]: its loss is not a number, so looking at the loss costs next to nothing."""
    if not loss.is_cpu or loss.is_global or _oneflow._is_tracing():
        return
    total = (loss if loss.dim() == 0 else loss.detach().sum()).item()
    if total != total and not bool(((input >= 0) & (input <= 1)).all()):
        raise RuntimeError("binary_cross_entropy(): all elements of input should be between 0 and 1")


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Binary cross entropy between ``sigmoid(input)`` and ``target``, computed without overflow; reduced.

    Args:
        weight: a factor of each element's loss.
        pos_weight: a factor of the positive class, broadcastable to the target.

    Example::

        >>> F.binary_cross_entropy_with_logits(oneflow.tensor([0.0, 2.0]), oneflow.tensor([0.0, 1.0]))
        tensor(0.4100)
    """
    reduction = legacy_reduction(size_average, reduce, reduction)
    return _oneflow.binary_cross_entropy_with_logits(input, target, weight, reduction, pos_weight)
