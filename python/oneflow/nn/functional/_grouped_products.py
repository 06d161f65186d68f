"""Products of groups of matrices, as mixtures of experts have them: a composition of a product for each group."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor


def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """Products of groups of matrices: those of a batch, or runs of rows, columns or inner indices that end at ``offs``.

    Args:
        mat_a: (groups, M, K), or (M, K).
        mat_b: (groups, K, N), or (K, N).
        offs: int32 (groups,), the end of each run; given if a matrix has no dimension of groups.
        bias: not provided, as in PyTorch.
        out_dtype: of the result.

    Raises:
        RuntimeError: offsets are given for two batches of matrices, are missing, or are not int32.

    Example::

        >>> ends = oneflow.tensor([1, 3], dtype=oneflow.int32)
        >>> F.grouped_mm(oneflow.ones(3, 2), oneflow.ones(2, 2, 4), offs=ends).shape
        oneflow.Size([3, 4])
    """
    if bias is not None:
        raise RuntimeError("grouped_mm(): Bias is not supported yet")
    if (offs is None) != (mat_a.dim() == mat_b.dim() == 3):
        raise RuntimeError("grouped_mm(): Have to provide offsets if there is a 2d matrix, or no offset if both are 3d")
    if offs is None:
        y = mat_a.matmul(mat_b)
    else:
        if offs.dtype != oneflow.int32:
            raise RuntimeError("grouped_mm(): Offsets have to be int32")
        ends = offs.tolist()
        runs = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
        # Rows after the last run belong to no group.
        if mat_a.dim() == mat_b.dim() == 2:
            y = oneflow.stack([mat_a[:, run].matmul(mat_b[run]) for run in runs])
        elif mat_a.dim() == 2:
            parts = [mat_a[run].matmul(b) for run, b in zip(runs, mat_b, strict=True)]
            y = oneflow.cat([*parts, mat_a.new_zeros((mat_a.shape[0] - ends[-1], mat_b.shape[-1]))])
        else:
            parts = [a.matmul(mat_b[:, run]) for run, a in zip(runs, mat_a, strict=True)]
            y = oneflow.cat([*parts, mat_a.new_zeros((mat_a.shape[-2], mat_b.shape[-1] - ends[-1]))], -1)
    return y if out_dtype is None else y.to(out_dtype)
