"""Softmax of sparse tensors: what has no entry counts as minus infinity, and gets none."""

from __future__ import annotations

import math
from typing import Any

import oneflow
from oneflow import Tensor

__all__ = ["log_softmax", "softmax"]


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Softmax of the entries of a sparse tensor along a dimension; places without an entry stay without one.

    Args:
        input: sparse COO, of floats.
        dim: a sparse or a dense dimension.
        dtype: what the values are cast to first.

    Returns:
        A sparse tensor of the same indices, coalesced.

    Raises:
        TypeError: ``input`` is not sparse.
        IndexError: there is no such dimension.

    Example::

        >>> x = oneflow.sparse_coo_tensor([[0, 0], [0, 2]], [1.0, 1.0], (2, 3))
        >>> oneflow.sparse.softmax(x, dim=1).to_dense()
        tensor([[0.5000, 0.0000, 0.5000],
                [0.0000, 0.0000, 0.0000]])
    """
    return _along("softmax", input, dim, dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Logarithm of :func:`softmax`, computed without its rounding.

    Args, results and errors are those of :func:`softmax`.

    Example::

        >>> x = oneflow.sparse_coo_tensor([[0, 0], [0, 2]], [1.0, 1.0], (2, 3))
        >>> oneflow.sparse.log_softmax(x, dim=1).values()
        tensor([-0.6931, -0.6931])
    """
    return _along("log_softmax", input, dim, dtype)


def _along(name: str, input: Tensor, dim: int, dtype: Any) -> Tensor:
    if not isinstance(input, Tensor) or not input.is_sparse:
        raise TypeError(f"sparse.{name}(): argument 'input' must be a sparse tensor")
    n = max(input.dim(), 1)
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    dim %= n
    x = input.coalesce()
    at, values = x.indices(), x.values() if dtype is None else x.values().to(dtype)
    n_sparse = x.sparse_dim()
    if dim >= n_sparse:
        result = getattr(values, name)(dim - n_sparse + 1)
    else:
        result = _by_group(name, values, _groups(at, x.shape[:n_sparse], dim))
    return oneflow.sparse_coo_tensor(at, result, x.shape, is_coalesced=True)


def _groups(at: Tensor, sizes: Any, dim: int) -> Tensor:
    """For each entry the number of its group: entries whose indices differ along ``dim`` alone."""
    place = at.new_zeros((at.shape[1],))
    for i, size in enumerate(sizes):
        if i != dim:
            place = place * size + at[i]
    inverse: Tensor = oneflow.unique(place, return_inverse=True)[1]
    return inverse


def _by_group(name: str, values: Tensor, group: Tensor) -> Tensor:
    n_groups = int(group.max().item()) + 1 if group.numel() else 0
    shape = (n_groups, *values.shape[1:])
    peak = values.new_full(shape, -math.inf).index_reduce(0, group, values.detach(), "amax")
    shifted = values - peak[group]
    exponents = shifted.exp()
    total = values.new_zeros(shape).index_add(0, group, exponents)
    return shifted - total.log()[group] if name == "log_softmax" else exponents / total[group]
