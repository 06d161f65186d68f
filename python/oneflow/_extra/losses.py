"""Losses and scores: cross entropies by OneFlow's names, margins, areas under curves, greedy decoding."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.global_layouts import replicate_like
from oneflow._extra import _checks
from oneflow._extra._checks import expect


def _functional() -> Any:
    return oneflow.nn.functional


def sparse_softmax_cross_entropy(labels: Tensor, logits: Tensor) -> Tensor:
    """``-log softmax(logits)`` at ``labels``: logits (*, classes), labels (*), the result (*).

    Example::

        >>> F = oneflow.nn.functional
        >>> F.sparse_softmax_cross_entropy(labels=oneflow.tensor([0]), logits=oneflow.tensor([[0.0, 0.0]]))
        tensor([0.6931])
    """
    _checks.labels(labels, logits)
    picked = logits.log_softmax(-1).gather(-1, labels.long().unsqueeze(-1))
    return -picked.squeeze(-1)


def distributed_sparse_cross_entropy(logits: Tensor, label: Tensor, depth: int | None = None) -> Tensor:
    """As :func:`sparse_softmax_cross_entropy`; logits may be split over their classes."""
    return sparse_softmax_cross_entropy(label, logits)


def sparse_cross_entropy(prediction: Tensor, label: Tensor, depth: int | None = None) -> Tensor:
    """``-log prediction`` at ``label``: probabilities (*, classes), labels (*), the result (*)."""
    _checks.labels(label, prediction)
    return -prediction.gather(-1, label.long().unsqueeze(-1)).squeeze(-1).log()


def softmax_cross_entropy(logits: Tensor, label: Tensor) -> Tensor:
    """``-sum(label * log softmax(logits))`` over the last dimension."""
    _checks.least_dims("prediction", logits, 2)
    _checks.same_dtype("label", label, "prediction", logits)
    _checks.same_sizes("label", label, "prediction", logits)
    return -(label * logits.log_softmax(-1)).sum(-1)


def softmax_cross_entropy_grad(dy: Tensor, label: Tensor, prob: Tensor) -> Tensor:
    """The derivative of :func:`softmax_cross_entropy` by the logits: ``dy * (prob - label)``."""
    _checks.least_dims("prob", prob, 2)
    _checks.one_dim_fewer("dy", dy, "prob", prob)
    _checks.same_sizes("label", label, "prob", prob)
    _checks.same_sizes("dy", dy, "label", label, dy.dim())
    _checks.same_dtype("dy", dy, "prob", prob)
    _checks.same_dtype("label", label, "prob", prob)
    return dy.unsqueeze(-1) * (prob - label)


def binary_cross_entropy_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """See :func:`oneflow.nn.functional.binary_cross_entropy`."""
    return _functional().binary_cross_entropy(input, target, weight, reduction=reduction)


def binary_cross_entropy_with_logits_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """See :func:`oneflow.nn.functional.binary_cross_entropy_with_logits`."""
    return _functional().binary_cross_entropy_with_logits(
        input, target, weight, pos_weight=pos_weight, reduction=reduction
    )


def binary_cross_entropy_with_logits_loss_grad(
    dy: Tensor, input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None
) -> Tensor:
    """The derivative of the elementwise loss by ``input``, times ``dy``."""
    positive = target if pos_weight is None else target * pos_weight
    # d/dx of -(w t log s + (1 - t) log(1 - s)), s the sigmoid of x.
    slope = (positive + 1 - target) * input.sigmoid() - positive
    return dy * (slope if weight is None else slope * weight)


def kl_div_loss(input: Tensor, target: Tensor, log_target: bool = False, reduction: str = "mean") -> Tensor:
    """See :func:`oneflow.nn.functional.kl_div`; "mean" is over elements."""
    pointwise = _functional().kl_div(input, target, reduction="none", log_target=log_target)
    return pointwise.mean() if reduction == "mean" else pointwise.sum() if reduction == "sum" else pointwise


def combined_margin_loss(x: Tensor, label: Tensor, m1: float, m2: float, m3: float) -> Tensor:
    """Cosines with a margin at the label: ``cos(m1 * theta + m2) - m3``; other entries stay.

    The margins of SphereFace (m1), ArcFace (m2) and CosFace (m3; Deng et al., "ArcFace", 2019).

    Args:
        x: (N, classes), cosines in [-1, 1].
        label: (N,).
    """
    here = replicate_like(x, oneflow.arange(x.shape[-1], device=x.device)) == label.long().unsqueeze(-1)
    if m1 == 1.0 and m2 == 0.0:
        return oneflow.where(here, x - m3, x)
    # A safe value elsewhere: the slope of acos is infinite at -1 and 1.
    theta = oneflow.where(here, x, oneflow.zeros_like(x)).acos()
    return oneflow.where(here, (theta * m1 + m2).cos() - m3, x)


def in_top_k(targets: Tensor, predictions: Tensor, k: int) -> Tensor:
    """Whether the target's score is among the ``k`` greatest: targets (N,), predictions (N, classes), the result (N,).

    Scores equal to the k-th count; a target outside the classes, or with a score that is not finite, does not.

    Example::

        >>> oneflow.in_top_k(oneflow.tensor([3, 1]), oneflow.tensor([[0.0, 1, 2, 3], [3.0, 2, 1, 0]]), 1)
        tensor([ True, False])
    """
    expect(
        targets.dtype in (oneflow.int32, oneflow.int64),
        f"in_top_k: targets data type must be index type, but got {targets.dtype}",
    )
    expect(
        targets.shape[:1] == predictions.shape[:1],
        f"in_top_k: The num of targets must equal the num of predictions, but got {list(targets.shape)} and "
        f"{list(predictions.shape)}",
    )
    expect(targets.dim() == 1, f"in_top_k: The dimension of targets must be 1, but got {targets.dim()}")
    expect(predictions.dim() == 2, f"in_top_k: The dimension of predictions must be 2, but got {predictions.dim()}")
    classes = predictions.shape[1]
    valid = (targets >= 0) & (targets < classes)
    score = predictions.gather(1, targets.long().clamp(0, classes - 1).unsqueeze(1))
    return ((predictions > score).sum(1) < k) & valid & score.squeeze(1).isfinite()


def roc_auc_score(label: Tensor, pred: Tensor) -> Tensor:
    """The area under the ROC curve: the chance that a positive scores higher than a negative, ties counting half.

    Args:
        label: zeros and ones, any shape.
        pred: scores of that many elements.

    Returns:
        one element of float32; NaN without positives or without negatives.

    Example::

        >>> oneflow.roc_auc_score(oneflow.tensor([0, 0, 1, 1]), oneflow.tensor([0.1, 0.4, 0.35, 0.8]))
        tensor([0.7500])
    """
    if label.numel() != pred.numel():
        raise RuntimeError(f"roc_auc_score: {label.numel()} labels for {pred.numel()} predictions")
    scores, positive = pred.reshape(-1).double(), label.reshape(-1) != 0
    ordered = scores.sort()[0]
    # Twice the mean rank of equal scores, counted from one.
    ranks = oneflow.searchsorted(ordered, scores) + oneflow.searchsorted(ordered, scores, right=True) + 1
    n = positive.sum().double()
    doubled = (ranks * positive).sum().double()
    area = (doubled - n * (n + 1)) / (2 * n * (scores.numel() - n))
    return area.float().reshape(1)


def ctc_greedy_decoder(log_probs: Tensor, input_lengths: Tensor, merge_repeated: bool = True) -> tuple[Tensor, Tensor]:
    """The most likely class of each step, repeats merged and blanks left out; the last class is the blank.

    Args:
        log_probs: (T, N, classes).
        input_lengths: (N,), how many steps count.

    Returns:
        the classes (N, T) as int64, zeros at the end; and the negated sum of the chosen log_probs, (N, 1).

    Example::

        >>> log_probs = oneflow.zeros(4, 1, 3).log_softmax(-1)
        >>> [t.shape for t in F.ctc_greedy_decoder(log_probs, oneflow.tensor([4]))]
        [oneflow.Size([1, 4]), oneflow.Size([1, 1])]
    """
    n_steps, _, classes = log_probs.shape
    best, label = log_probs.transpose(0, 1).max(-1)
    step = replicate_like(log_probs, oneflow.arange(n_steps, device=log_probs.device))
    counts = step < input_lengths.to(log_probs.device).reshape(-1, 1)
    keep = counts & (label != classes - 1)
    if merge_repeated:
        before = oneflow.cat([oneflow.full_like(label[:, :1], -1), label[:, :-1]], 1)
        keep = keep & (label != before)
    # Kept steps come first, in their order.
    order = oneflow.where(keep, step, step + n_steps).argsort(1)
    decoded = oneflow.where(keep, label, oneflow.zeros_like(label)).gather(1, order)
    return decoded, -(oneflow.where(counts, best, oneflow.zeros_like(best))).sum(1, keepdim=True)
