"""Sums, means and maxima of bags of embedding rows: arguments in, one call of the op."""

from __future__ import annotations

import warnings

from oneflow import Tensor, _oneflow


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
        include_last_offset: the last offset is the end of the last bag, and should be the number of indices. As in
            PyTorch, with ``"max"`` or a ``padding_idx`` the last bag takes all that follow, whatever it says.
        padding_idx: an index that takes no part.

    Raises:
        ValueError: shapes of ``input`` and ``offsets`` or the mode do not fit.
        RuntimeError: an index is no row, or the offsets do not start at 0 and rise to at most the indices' number.
        NotImplementedError: weights of rows with another mode than ``"sum"``.

    >>> import oneflow
    >>> oneflow.nn.functional.embedding_bag(oneflow.tensor([[0, 1]]), oneflow.tensor([[1.0], [3.0]]))
    tensor([[2.]])
    """
    if not weight.is_floating_point() and not weight.is_complex() and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`.",
            stacklevel=2,
        )
        weight, input = input, weight
    rows = weight.shape[0]
    if include_last_offset and (mode == "max" or padding_idx is not None):
        if offsets is not None and offsets.dim() == 1 and offsets.numel() > 1:
            offsets, include_last_offset = offsets[:-1], False
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx < -rows:
        raise RuntimeError(f"padding_idx must be within the number of embeddings, -{rows} through {rows - 1}")
    elif padding_idx < 0:
        padding_idx += rows
    if max_norm is not None:
        from oneflow.nn.functional._embeddings import renormalise_rows

        renormalise_rows(weight, input, max_norm, norm_type)
    return _oneflow._C.native_embedding_bag(
        weight,
        input,
        offsets,
        per_sample_weights,
        mode,
        scale_grad_by_freq,
        sparse,
        include_last_offset,
        padding_idx,
    )[0]
