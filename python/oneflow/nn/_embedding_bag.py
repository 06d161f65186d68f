"""Sums, means and maxima of bags of embedding rows, as a composition: rows are picked, then reduced by bag."""

from __future__ import annotations

import oneflow
from oneflow import Tensor


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Rows of ``weight`` (rows, length) at ``input``, reduced by bag: (bags, length).

    Args:
        input: int64 or int32 indices; (bags, n), or (N) with the starts of the bags in ``offsets``.
        weight: (rows, length), floating.
        offsets: (bags), or (bags + 1) with ``include_last_offset``.
        max_norm: rows with a larger norm are first scaled down, in place.
        norm_type: of that norm.
        scale_grad_by_freq: divide gradients by how often an index occurs.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        sparse: the gradient of ``weight`` is a sparse tensor of the rows that were used.
        per_sample_weights: factors of the rows, of the shape of ``input``; with ``"sum"`` only.
        include_last_offset: the last offset is the end of the last bag.
        padding_idx: an index that takes no part.

    Raises:
        ValueError: shapes of ``input`` and ``offsets`` or the mode do not fit.
        NotImplementedError: weights of rows with another mode than ``"sum"``.

    >>> import oneflow
    >>> oneflow.nn.functional.embedding_bag(oneflow.tensor([[0, 1]]), oneflow.tensor([[1.0], [3.0]]))
    tensor([[2.]])
    """
    from oneflow.nn.functional import embedding

    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({tuple(per_sample_weights.shape)}) is not None, then it must have "
            f"the same shape as the input ({tuple(input.shape)})"
        )
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}'). Please open a feature request on GitHub."
        )
    rows = weight.shape[0]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise RuntimeError(
                f"padding_idx must be within the number of embeddings, -{rows} through {rows - 1}, "
                f"but got {padding_idx}"
            )
        padding_idx %= rows
    if input.dim() == 2 and offsets is None and input.shape[1] > 0 and mode != "max" and padding_idx is None:
        # Bags of one size are a dimension.
        picked = embedding(input, weight, None, max_norm, norm_type, scale_grad_by_freq, sparse)
        if per_sample_weights is not None:
            picked = picked * per_sample_weights.unsqueeze(2)
        return picked.sum(1) if mode == "sum" else picked.mean(1)
    index, bag, n_bags = _bags(input, offsets, include_last_offset)
    picked = embedding(index, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    if per_sample_weights is not None:
        picked = picked * per_sample_weights.reshape(-1, 1)
    if padding_idx is not None:
        picked = oneflow.where((index != padding_idx).unsqueeze(1), picked, 0.0)
    out = weight.new_zeros((n_bags, weight.shape[1]))
    if mode == "max":
        if padding_idx is not None:
            picked = oneflow.where((index != padding_idx).unsqueeze(1), picked, -float("inf"))
        out = out.index_reduce(0, bag, picked, "amax", include_self=False)
        return oneflow.where(out == -float("inf"), 0.0, out) if padding_idx is not None else out
    out = out.index_add(0, bag, picked)
    if mode == "mean":
        counts = weight.new_ones((index.shape[0],)) if padding_idx is None else (index != padding_idx).to(weight.dtype)
        out = out / weight.new_zeros((n_bags,)).index_add(0, bag, counts).clamp(min=1).unsqueeze(1)
    return out


def _bags(input: Tensor, offsets: Tensor | None, include_last: bool) -> tuple[Tensor, Tensor, int]:
    """Flat indices, the bag of each, and how many bags there are."""
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        n, length = input.shape
        bag = oneflow.arange(n, device=input.device).unsqueeze(1).expand(n, length).reshape(-1)
        return input.reshape(-1), bag, n
    if input.dim() != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    starts = offsets.to(oneflow.int64)
    if starts.shape[0] > 0 and int(starts[0].item()) != 0:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
            f"However, got {int(starts[0].item())}"
        )
    if starts.shape[0] > 0 and int(starts[-1].item()) > input.shape[0]:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length({input.shape[0]}) but got offsets[-1] of "
            f"{int(starts[-1].item())}"
        )
    n = starts.shape[0] - include_last
    bag = oneflow.searchsorted(starts[:n], oneflow.arange(input.shape[0], device=input.device), right=True) - 1
    return input, bag, n
