"""Cross entropy of a linear map, as one function."""

from __future__ import annotations

import oneflow
from oneflow import Tensor
from oneflow.nn.functional._chunked_cross_entropy import LinearCrossEntropyOptions, in_chunks
from oneflow.nn.functional._losses import cross_entropy

__all__ = ["linear_cross_entropy"]


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """``cross_entropy(linear(input, linear_weight, linear_bias), target)``.

    Args:
        input: (N, features) or (features,).
        linear_weight: (C, features), or (C, d1, ..., features) for a loss at each of several places.
        target: class indices (N, d1, ...) or probabilities (N, C, d1, ...).
        linear_bias: the weight's shape without its last dimension.
        options: a :class:`oneflow.nn.LinearCrossEntropyOptions`: rows are taken in chunks, whose logits are never in
            memory together.

    Raises:
        RuntimeError: shapes that do not fit.
        TypeError: ``options`` is something else.
        ValueError: ``options`` contradict each other.

    Example::

        >>> F.linear_cross_entropy(oneflow.ones(2, 3), oneflow.zeros(4, 3), oneflow.tensor([0, 1]))
        tensor(1.3863)
    """
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}")
    classes, *places, features = linear_weight.shape
    if input.shape[-1] != features:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {features}, respectively"
        )
    if places and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, "
            f"got input shape {tuple(input.shape)}"
        )
    if linear_bias is not None and list(linear_bias.shape) != [classes, *places]:
        raise RuntimeError(f"expected linear_bias shape {(classes, *places)}, got {tuple(linear_bias.shape)}")
    if target.dtype.is_floating_point and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignored = -100 if ignore_index is None else ignore_index

    def loss(
        rows: Tensor, linear_weight: Tensor, bias: Tensor | None, target: Tensor, weight: Tensor | None, reduction: str
    ) -> Tensor:
        flat = None if bias is None else bias.reshape(-1)
        logits = oneflow.nn.functional.linear(rows, linear_weight.reshape(-1, features), flat)
        logits = logits.reshape(*rows.shape[:-1], classes, *places)
        return cross_entropy(
            logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
        )

    if options is None:
        return loss(input, linear_weight, linear_bias, target, weight, reduction)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if input.dim() == 1:
        input, target = input.unsqueeze(0), target.unsqueeze(0)
        one = in_chunks(options, loss, input, linear_weight, linear_bias, target, weight, reduction, ignored)
        return one.squeeze(0) if reduction == "none" else one
    return in_chunks(options, loss, input, linear_weight, linear_bias, target, weight, reduction, ignored)
