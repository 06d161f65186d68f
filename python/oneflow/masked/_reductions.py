"""Reductions and normalisations over the elements that a boolean mask keeps.

Of a masked tensor they are those of its data with its mask, and give an ordinary tensor. Excluded elements become the
operation's neutral element.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import oneflow
from oneflow import Tensor, sparse_coo, sparse_csr, strided
from oneflow._base.global_layouts import replicate_like
from oneflow._functions import masked_entries
from oneflow.masked._tensor import MaskedTensor

F = TypeVar("F", bound=Callable[..., Tensor])

# What has a form for sparse tensors.
_OF_ENTRIES = ("sum", "prod", "amax", "amin", "mean")


def _takes_masked(function: F) -> F:
    """Let the first argument be a masked tensor, whose mask counts then, and the mask be sparse."""
    name = function.__name__

    @functools.wraps(function)
    def taking(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if isinstance(input, MaskedTensor):
            kwargs["mask"], input = input.get_mask(), input.get_data()
        if input.layout not in ((strided, sparse_coo, sparse_csr) if name in _OF_ENTRIES else (strided,)):
            expected = "strided, sparse_coo or sparse_csr" if name in _OF_ENTRIES else "strided"
            raise ValueError(f"masked {name} expects a {expected} tensor, got {input.layout}")
        mask = kwargs.get("mask")
        if mask is not None and mask.layout not in (strided, sparse_coo):
            kwargs["mask"] = mask.to_sparse()
        return function(input, *args, **kwargs)

    return taking  # type: ignore[return-value]


_Dims = int | tuple[int, ...] | None


def _filled(input: Tensor, mask: Tensor | None, fill: float) -> Tensor:
    if mask is None:
        return input
    if mask.dtype != oneflow.bool:
        raise TypeError(f"mask must be a tensor of booleans, got {mask.dtype}")
    mask = mask.to_dense() if mask.is_sparse else mask
    neutral = replicate_like(input, oneflow.tensor(fill, dtype=input.dtype, device=input.device))
    return oneflow.where(mask.expand_as(input), input, neutral)


def _least(dtype: oneflow.dtype) -> float:
    if dtype == oneflow.bool:
        return 0
    return float("-inf") if dtype.is_floating_point or dtype.is_complex else oneflow.iinfo(dtype).min


def _greatest(dtype: oneflow.dtype) -> float:
    if dtype == oneflow.bool:
        return 1
    return float("inf") if dtype.is_floating_point else oneflow.iinfo(dtype).max


def _dims(input: Tensor, dim: _Dims) -> tuple[int, ...]:
    """Every dimension once, from the outermost; all of them where none is named."""
    n = input.dim()
    wanted = (dim,) if isinstance(dim, int) else tuple(dim or ())
    if not wanted:
        return tuple(range(n))
    if n == 0:
        for d in wanted:
            if d not in (-1, 0):
                raise IndexError(f"Dimension out of range (expected to be in range of [-1, 0], but got {d})")
        return ()
    for d in wanted:
        if not -n <= d < n:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})")
    around = [d % n for d in wanted]
    if len(set(around)) < len(around):
        raise RuntimeError(f"dim={wanted} appears multiple times in the list of dims")
    return tuple(sorted(around))


@_takes_masked
def sum(
    input: Tensor,
    dim: _Dims = None,
    *,
    keepdim: bool = False,
    dtype: oneflow.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Sum over ``dim``.

    Example::

        >>> oneflow.masked.sum(oneflow.tensor([1.0, 2.0, 4.0]), mask=oneflow.tensor([True, False, True]))
        tensor(5.)
    """
    dims = _dims(input, dim)
    if input.layout is not strided:
        return masked_entries.reduced("sum", input, dims, keepdim, dtype, mask, 0)
    kept = _filled(input, mask, 0)
    return kept.sum(dims, keepdim, dtype=dtype) if dims else kept.sum(dtype=dtype)


@_takes_masked
def prod(
    input: Tensor,
    dim: _Dims | list[int] = None,
    *,
    keepdim: bool = False,
    dtype: oneflow.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Product over ``dim``.

    Example::

        >>> oneflow.masked.prod(oneflow.tensor([1.0, 2.0, 4.0]), mask=oneflow.tensor([True, False, True]))
        tensor(4.)
    """
    if input.layout is not strided:
        dims = () if dim == [] else _dims(input, tuple(dim) if isinstance(dim, list) else dim)
        return masked_entries.reduced("prod", input, dims, keepdim, dtype, mask, 1)
    kept = _filled(input, mask, 1)
    if isinstance(dim, list) and not dim:
        # As PyTorch's: a list without dimensions reduces none, a tuple without any reduces all.
        return kept if dtype is None else kept.to(dtype)
    dims = _dims(input, tuple(dim) if isinstance(dim, list) else dim)
    if not dims:
        return kept.prod(dtype=dtype)
    for d in reversed(dims):
        kept = kept.prod(d, keepdim, dtype=dtype)
    return kept


@_takes_masked
def cumsum(input: Tensor, dim: int, *, dtype: oneflow.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running sum along ``dim``.

    Example::

        >>> oneflow.masked.cumsum(oneflow.tensor([1.0, 2.0, 4.0]), 0, mask=oneflow.tensor([True, False, True]))
        tensor([1., 1., 5.])
    """
    return _filled(input, mask, 0).cumsum(dim, dtype=dtype or input.dtype)


@_takes_masked
def cumprod(input: Tensor, dim: int, *, dtype: oneflow.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running product along ``dim``.

    Example::

        >>> oneflow.masked.cumprod(oneflow.tensor([1.0, 2.0, 4.0]), 0, mask=oneflow.tensor([True, False, True]))
        tensor([1., 1., 4.])
    """
    return _filled(input, mask, 1).cumprod(dim, dtype=dtype or input.dtype)


def _cast(y: Tensor, dtype: oneflow.dtype | None) -> Tensor:
    return y if dtype is None else y.to(dtype)


@_takes_masked
def amax(
    input: Tensor,
    dim: _Dims = None,
    *,
    keepdim: bool = False,
    dtype: oneflow.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Maximum over ``dim``.

    Example::

        >>> oneflow.masked.amax(oneflow.tensor([1.0, 2.0, 4.0]), mask=oneflow.tensor([True, False, True]))
        tensor(4.)
    """
    if input.layout is not strided:
        return masked_entries.reduced("amax", input, _dims(input, dim), keepdim, dtype, mask, _least(input.dtype))
    return _cast(_filled(input, mask, _least(input.dtype)).amax(_dims(input, dim), keepdim), dtype)


@_takes_masked
def amin(
    input: Tensor,
    dim: _Dims = None,
    *,
    keepdim: bool = False,
    dtype: oneflow.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Minimum over ``dim``.

    Example::

        >>> oneflow.masked.amin(oneflow.tensor([1.0, 2.0, 4.0]), mask=oneflow.tensor([True, False, True]))
        tensor(1.)
    """
    if input.layout is not strided:
        return masked_entries.reduced("amin", input, _dims(input, dim), keepdim, dtype, mask, _greatest(input.dtype))
    return _cast(_filled(input, mask, _greatest(input.dtype)).amin(_dims(input, dim), keepdim), dtype)


@_takes_masked
def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: oneflow.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Index of the maximum along ``dim``, among all where it is None, in the input's dtype by default.

    Example::

        >>> oneflow.masked.argmax(oneflow.tensor([1.0, 2.0, 4.0]), 0, mask=oneflow.tensor([True, False, True]))
        tensor(2.)
    """
    found = _filled(input, mask, _least(input.dtype)).argmax(dim, keepdim)
    return found.to(input.dtype if dtype is None else dtype)


@_takes_masked
def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: oneflow.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Index of the minimum along ``dim``, among all where it is None, in the input's dtype by default.

    Example::

        >>> oneflow.masked.argmin(oneflow.tensor([1.0, 2.0, 4.0]), 0, mask=oneflow.tensor([True, False, True]))
        tensor(0.)
    """
    found = _filled(input, mask, _greatest(input.dtype)).argmin(dim, keepdim)
    return found.to(input.dtype if dtype is None else dtype)


def _count(input: Tensor, dims: tuple[int, ...], keepdim: bool, mask: Tensor | None) -> Tensor:
    ones = replicate_like(input, oneflow.ones(input.shape, dtype=oneflow.int64, device=input.device))
    return sum(ones, dims, keepdim=keepdim, mask=mask)


@_takes_masked
def mean(
    input: Tensor,
    dim: _Dims = None,
    *,
    keepdim: bool = False,
    dtype: oneflow.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Mean over ``dim``; NaN of nothing.

    Example::

        >>> oneflow.masked.mean(oneflow.tensor([1.0, 2.0, 4.0]), mask=oneflow.tensor([True, False, True]))
        tensor(2.5000)
    """
    dims = _dims(input, dim)
    if dtype is None and not (input.dtype.is_floating_point or input.dtype.is_complex):
        dtype = oneflow.get_default_dtype()
    if input.layout is not strided:
        return masked_entries.reduced("mean", input, dims, keepdim, dtype, mask, float("nan"))
    total = sum(input, dims, keepdim=keepdim, dtype=dtype, mask=mask)
    return total / _count(input, dims, keepdim, mask)


@_takes_masked
def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: oneflow.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Lower median along ``dim``, of the elements that are no NaN; NaN of nothing.

    Example::

        >>> oneflow.masked.median(oneflow.tensor([1.0, 2.0, 4.0]), 0, mask=oneflow.tensor([True, False, True]))
        tensor(1.)
    """
    if not input.dtype.is_floating_point:
        raise ValueError(f"median: floating point input expected, got {input.dtype}")
    return _filled(_cast(input, dtype), mask, float("nan")).nanmedian(dim, keepdim).values


@_takes_masked
def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: _Dims = None,
    *,
    keepdim: bool = False,
    dtype: oneflow.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Vector norm over ``dim``.

    Example::

        >>> oneflow.masked.norm(oneflow.tensor([1.0, 2.0, 4.0]), 2.0, mask=oneflow.tensor([True, False, True]))
        tensor(4.1231)
    """
    ord = 2.0 if ord is None else ord
    kept = _filled(input, mask, float("inf") if ord == float("-inf") else 0)
    return oneflow.linalg.vector_norm(kept, ord, _dims(input, dim), keepdim, dtype=dtype)


@_takes_masked
def var(
    input: Tensor,
    dim: _Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: oneflow.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Variance over ``dim``, divided by one less than the count by default.

    Example::

        >>> oneflow.masked.var(oneflow.tensor([1.0, 2.0, 4.0]), mask=oneflow.tensor([True, False, True]))
        tensor(4.5000)
    """
    if unbiased is not None and correction is not None:
        raise RuntimeError("only one of unbiased and correction may be given")
    less = correction if correction is not None else 0 if unbiased is False else 1
    if dtype is None:
        floating = input.dtype.is_floating_point or input.dtype.is_complex
        dtype = input.dtype if floating else oneflow.get_default_dtype()
    # Excluded elements must not reach the gradient of the mean.
    x, dims = _filled(input.to(dtype), mask, 0), _dims(input, dim)
    away = x - mean(x, dims, keepdim=True, mask=mask)
    squares = sum(
        oneflow.real(away * away.conj()) if x.dtype.is_complex else away * away, dims, keepdim=keepdim, mask=mask
    )
    left = (_count(input, dims, keepdim, mask) - less).clamp(min=0)
    # A complex dtype stays.
    return squares.to(x.dtype) / left.to(x.dtype)


@_takes_masked
def std(
    input: Tensor,
    dim: _Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: oneflow.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Standard deviation over ``dim``, divided by one less than the count by default.

    Example::

        >>> oneflow.masked.std(oneflow.tensor([1.0, 2.0, 4.0]), mask=oneflow.tensor([True, False, True]))
        tensor(2.1213)
    """
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


@_takes_masked
def softmax(input: Tensor, dim: int, *, dtype: oneflow.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax along ``dim``; zero where left out.

    Example::

        >>> oneflow.masked.softmax(oneflow.tensor([1.0, 2.0, 4.0]), 0, mask=oneflow.tensor([True, False, True]))
        tensor([0.0474, 0.0000, 0.9526])
    """
    return _filled(input, mask, _least(input.dtype)).softmax(dim, dtype=dtype)


@_takes_masked
def log_softmax(input: Tensor, dim: int, *, dtype: oneflow.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Logarithm of the softmax along ``dim``.

    Example::

        >>> oneflow.masked.log_softmax(oneflow.tensor([1.0, 2.0, 4.0]), 0, mask=oneflow.tensor([True, False, True]))
        tensor([-3.0486,    -inf, -0.0486])
    """
    return _filled(input, mask, _least(input.dtype)).log_softmax(dim, dtype=dtype)


@_takes_masked
def softmin(input: Tensor, dim: int, *, dtype: oneflow.dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax of the negated input along ``dim``; zero where left out.

    Example::

        >>> oneflow.masked.softmin(oneflow.tensor([1.0, 2.0, 4.0]), 0, mask=oneflow.tensor([True, False, True]))
        tensor([0.9526, 0.0000, 0.0474])
    """
    return (-_filled(input, mask, _greatest(input.dtype))).softmax(dim, dtype=dtype)


@_takes_masked
def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: oneflow.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Divided by the norm along ``dim``, which is at least ``eps``; zero where left out.

    Example::

        >>> oneflow.masked.normalize(oneflow.tensor([1.0, 2.0, 4.0]), 2.0, 0, mask=oneflow.tensor([True, False, True]))
        tensor([0.2425, 0.0000, 0.9701])
    """
    x = _cast(input, dtype)
    length = norm(x, ord, dim, keepdim=True, mask=mask)
    return _filled(x, mask, 0) / oneflow.maximum(length, oneflow.full_like(length, eps))


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: oneflow.dtype | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """``log(exp(input) + exp(other))``; what is left out adds nothing.

    Example::

        >>> oneflow.masked.logaddexp(oneflow.zeros(2), oneflow.zeros(2))
        tensor([0.6931, 0.6931])
    """
    a, b = _cast(input, dtype), _cast(other, dtype)
    return oneflow.logaddexp(_filled(a, input_mask, float("-inf")), _filled(b, other_mask, float("-inf")))


@_takes_masked
def logsumexp(
    input: Tensor,
    dim: _Dims = None,
    *,
    keepdim: bool = False,
    dtype: oneflow.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """``log(sum(exp(input)))`` over ``dim``.

    Example::

        >>> oneflow.masked.logsumexp(oneflow.tensor([1.0, 2.0, 4.0]), 0, mask=oneflow.tensor([True, False, True]))
        tensor(4.0486)
    """
    dims = _dims(input, dim)
    x = _cast(input, dtype)
    return oneflow.logsumexp(_filled(x, mask, _least(x.dtype)), dims if x.dim() else (0,), keepdim).to(x.dtype)
