"""Norms of differences and angles between vectors, composed of ops."""

from __future__ import annotations

import math

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base.amp import in_float32
from oneflow._base.global_layouts import replicate_like


def _norm(x: Tensor, p: float, dim: int, keepdim: bool = False) -> Tensor:
    """The p-norm along a dimension; its gradient at zero is zero."""
    if p == 0:
        # A count, with the gradient of a constant.
        return (x != 0).to(x.dtype).sum(dim, keepdim) + x.masked_fill(oneflow.ones_like(x, dtype=oneflow.bool), 0).sum(
            dim, keepdim
        )
    size = x.abs()
    x = size if x.is_complex() else x
    if p == 1:
        return size.sum(dim, keepdim)
    if p == math.inf:
        return size.amax(dim, keepdim)
    if p == -math.inf:
        return size.amin(dim, keepdim)
    powers = (x * x if p == 2 else _power(size, p)).sum(dim, keepdim)
    zero = powers == 0
    return powers.masked_fill(zero, 1.0).pow(1.0 / p).masked_fill(zero, 0.0) if p > 0 else powers.pow(1.0 / p)


def _power(size: Tensor, p: float) -> Tensor:
    """``size ** p`` whose gradient at zero is zero, where it is infinite for ``p`` below one."""
    if not 0 < p < 1:
        return size.pow(p)
    zero = size == 0
    return size.masked_fill(zero, 1.0).pow(p).masked_fill(zero, 0.0)


def _greatest(x: Tensor, dim: int) -> Tensor:
    """The greatest size along a dimension; each of several that are equal gets the whole gradient."""
    size = x.abs()
    most = size.detach().amax(dim, keepdim=True)
    # Infinite differences cancel to NaN.
    slope = (size - size.detach()).nan_to_num(0.0).masked_fill(size.detach() != most, 0)
    return most.squeeze(dim) + slope.sum(dim)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """``input`` divided by its p-norm along ``dim``, at least ``eps``.

    Example::

        >>> F.normalize(oneflow.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """
    length = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / length if out is None else oneflow.div(input, length, out=out)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """``x1 . x2 / max(|x1| |x2|, eps)`` along ``dim``, with broadcasting; each length is at least ``eps``.

    Example::

        >>> F.cosine_similarity(oneflow.tensor([[1.0, 0.0]]), oneflow.tensor([[1.0, 1.0]]))
        tensor([0.7071])
    """
    dtype = oneflow.result_type(x1, x2)
    if not dtype.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {dtype}")
    x1, x2 = oneflow.broadcast_tensors(x1.to(dtype), x2.to(dtype))
    lengths = [_norm(x, 2, dim, keepdim=True).clamp(min=eps) for x in (x1, x2)]
    return ((x1 / lengths[0]) * (x2 / lengths[1])).sum(dim)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last dimension.

    Example::

        >>> F.pairwise_distance(oneflow.tensor([[0.0, 0.0]]), oneflow.tensor([[3.0, 4.0]]))
        tensor([5.0000])
    """
    return _norm(x1 - x2 + eps, p, -1, keepdim)


@in_float32
def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary"
) -> Tensor:
    """p-norm distances between the rows of ``x1`` (*, P, M) and of ``x2`` (*, R, M): (*, P, R).

    With ``p`` 2 and more than 25 rows on a side, distances come from one matrix product, as ``|a|^2 - 2 ab + |b|^2``;
    ``compute_mode`` "use_mm_for_euclid_dist" selects that with few rows too, "donot_use_mm_for_euclid_dist" never. The
    product is far faster, but loses digits where two rows nearly coincide.

    Raises:
        RuntimeError: shapes or dtypes do not fit, or ``p`` is negative.

    Example::

        >>> oneflow.cdist(oneflow.tensor([[0.0, 0.0]]), oneflow.tensor([[3.0, 4.0]]))
        tensor([[5.]])
    """
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.dtype.is_floating_point:
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {x.dtype}")
        if x.dim() < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.dim()}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    modes = (None, "use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
    if compute_mode not in modes:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    if x1.shape[-1] == 0:
        batch = oneflow.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        return x1.new_zeros((*batch, x1.shape[-2], x2.shape[-2]))
    many = max(x1.shape[-2], x2.shape[-2]) > 25 and compute_mode != "donot_use_mm_for_euclid_dist"
    if p == 2 and (many or compute_mode == "use_mm_for_euclid_dist"):
        return _euclidean_by_product(x1, x2)
    if p == math.inf:
        return _greatest(x1.unsqueeze(-2) - x2.unsqueeze(-3), -1)
    batch = oneflow.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    dtype = oneflow.result_type(x1, x2)
    x1, x2 = (x.to(dtype).expand(*batch, *x.shape[-2:]) for x in (x1, x2))
    return _oneflow._C.pair_distances(x1, x2, p)


def _euclidean_by_product(x1: Tensor, x2: Tensor) -> Tensor:
    """Euclidean distances of all pairs of rows by one product of ``[-2 a, |a|^2, 1]`` and ``[b, 1, |b|^2]``.

    The gradient at distance zero is zero.
    """
    squares = [(x * x).sum(-1, keepdim=True) for x in (x1, x2)]
    left = oneflow.cat([x1 * -2, squares[0], oneflow.ones_like(squares[0])], -1)
    right = oneflow.cat([x2, oneflow.ones_like(squares[1]), squares[1]], -1)
    square = left.matmul(right.mT)
    zero = square <= 0
    return square.masked_fill(zero, 1.0).sqrt().masked_fill(zero, 0.0)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """p-norm distances between every two rows of ``input`` (N, M): (N (N - 1) / 2,), the upper triangle.

    Example::

        >>> F.pdist(oneflow.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
        tensor([5.0000, 1.0000, 4.2426])
    """
    if input.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.dim()}D")
    if not input.dtype.is_floating_point:
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    n = input.shape[0]
    if n <= 1:
        return input.new_zeros((0,)) + input.sum() * 0
    first, second = replicate_like(input, oneflow.triu_indices(n, n, 1, device=input.device)).unbind(0)
    apart = input.index_select(0, first) - input.index_select(0, second)
    return _greatest(apart, -1) if p == math.inf else _norm(apart, p, -1)
