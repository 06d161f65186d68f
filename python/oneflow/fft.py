"""Discrete Fourier transforms under the names of ``torch.fft``.

Every function here brings its arguments into the form of three ops: complex to complex, real to complex,
complex to real.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import _oneflow
from oneflow._base.amp import widened_on_host as _widened_on_host
from oneflow._base.destinations import cast_into as _cast_into
from oneflow._base.overridable import publish as _publish
from oneflow._oneflow import Tensor

__all__ = [
    "Tensor",
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


_C = _oneflow._C

# How the three ops count normalisations.
_NONE, _BY_ROOT, _BY_N = 0, 1, 2


def _normalization(norm: str | None, forward: bool) -> int:
    if norm in (None, "backward"):
        return _NONE if forward else _BY_N
    if norm == "forward":
        return _BY_N if forward else _NONE
    if norm == "ortho":
        return _BY_ROOT
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


_NAMES = {
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
    "float16": "Half",
    "bfloat16": "BFloat16",
}


def _is_complex(x: Tensor) -> bool:
    return x.dtype in (oneflow.complex64, oneflow.complex128)


def _real(x: Tensor, name: str) -> Tensor:
    """A real tensor of a dtype that has transforms."""
    if _is_complex(x):
        raise TypeError(f"{name} expects a real input tensor, but got {_NAMES[str(x.dtype).rpartition('.')[2]]}")
    if x.is_floating_point():
        x = _widened_on_host(x)
        kind = str(x.dtype).rpartition(".")[2]
        if kind in ("float16", "bfloat16"):
            raise NotImplementedError(f"Unsupported dtype {_NAMES[kind]}")
        return x
    return x.to(oneflow.get_default_dtype())


def _complex(x: Tensor) -> Tensor:
    if _is_complex(x):
        return x
    x = _real(x, "fft")
    return x.to(oneflow.complex128 if x.dtype == oneflow.float64 else oneflow.complex64)


def _wrap(dim: int, ndim: int) -> int:
    if ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    if not -ndim <= dim < ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})")
    return dim % ndim


def _resized(x: Tensor, sizes: Sequence[int], dims: Sequence[int]) -> Tensor:
    """Cut, or padded with zeros, at the end of each dimension; -1 leaves one as it is."""
    for n, d in zip(sizes, dims, strict=True):
        have = x.shape[d]
        if n == -1 or n == have:
            continue
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")
        if n < have:
            x = x.narrow(d, 0, n)
        else:
            shape = list(x.shape)
            shape[d] = n - have
            x = oneflow.cat([x, x.new_zeros(shape)], d)
    return x


def _points(n: int) -> int:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return n


def _one(x: Tensor, n: int | None, dim: int) -> tuple[int, int]:
    """The dimension, and how many points of it."""
    d = _wrap(dim, x.ndim)
    return d, _points(x.shape[d] if n is None else n)


def _many(x: Tensor, s: Any, dim: Any) -> tuple[list[int], list[int]]:
    """Sizes and dimensions of a transform over several."""
    if s is not None and isinstance(s, int):
        s = (s,)
    if dim is not None:
        dims = [_wrap(d, x.ndim) for d in ((dim,) if isinstance(dim, int) else dim)]
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
        if s is not None and len(s) != len(dims):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
    elif s is not None:
        if len(s) > x.ndim:
            raise RuntimeError(f"Got shape with {len(s)} values but input tensor only has {x.ndim} dimensions.")
        dims = list(range(x.ndim - len(s), x.ndim))
    else:
        dims = list(range(x.ndim))
    sizes = (
        [x.shape[d] for d in dims]
        if s is None
        else [x.shape[d] if n == -1 else n for n, d in zip(s, dims, strict=True)]
    )
    for n in sizes:
        _points(n)
    return sizes, dims


# ------------------------------------------------------------------------------------------- one dimension


def _c2c(x: Tensor, n: int | None, dim: int, norm: str | None, forward: bool) -> Tensor:
    x = _complex(x)
    d, n = _one(x, n, dim)
    return _C.fft_c2c(_resized(x, (n,), (d,)), (d,), _normalization(norm, forward), forward)


def fft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The transform along a dimension, of ``n`` points; ``norm`` is "backward", "ortho" or "forward".

    >>> import oneflow
    >>> oneflow.fft.fft(oneflow.tensor([1.0, 0.0]))
    tensor([1.+0.j, 1.+0.j])
    """
    if _is_complex(input):
        return _cast_into(_c2c(input, n, dim, norm, True), out)
    x = _real(input, "fft")
    d, n = _one(x, n, dim)
    return _cast_into(_C.fft_r2c(_resized(x, (n,), (d,)), (d,), _normalization(norm, True), False), out)


def ifft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of :func:`fft`.

    Example::

        >>> oneflow.fft.ifft(oneflow.fft.fft(oneflow.tensor([1.0, 2.0]))).real
        tensor([1., 2.])
    """
    if _is_complex(input):
        return _cast_into(_c2c(input, n, dim, norm, False), out)
    x = _real(input, "ifft")
    d, n = _one(x, n, dim)
    return _cast_into(_C.fft_r2c(_resized(x, (n,), (d,)), (d,), _normalization(norm, False), False).conj(), out)


def _r2c(name: str, x: Tensor, n: int | None, dim: int, norm: str | None, forward: bool) -> Tensor:
    x = _real(x, name)
    d, n = _one(x, n, dim)
    result = _C.fft_r2c(_resized(x, (n,), (d,)), (d,), _normalization(norm, forward), True)
    return result if forward else result.conj()


def _c2r(x: Tensor, n: int | None, dim: int, norm: str | None, forward: bool) -> Tensor:
    x = _complex(x)
    d = _wrap(dim, x.ndim)
    n = _points(2 * (x.shape[d] - 1) if n is None else n)
    x = _resized(x, (n // 2 + 1,), (d,))
    return _C.fft_c2r(x.conj() if forward else x, (d,), _normalization(norm, forward), n)


def rfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The transform of a real tensor: the first half, which determines the rest.

    Example::

        >>> oneflow.fft.rfft(oneflow.ones(4)).real
        tensor([4., 0., 0.])
    """
    return _cast_into(_r2c("rfft", input, n, dim, norm, True), out)


def irfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of :func:`rfft`, of ``n`` real points (an even number if left out).

    Example::

        >>> oneflow.fft.irfft(oneflow.fft.rfft(oneflow.tensor([1.0, 2.0, 3.0, 4.0])))
        tensor([1., 2., 3., 4.])
    """
    return _cast_into(_c2r(input, n, dim, norm, False), out)


def hfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The real transform of a Hermitian tensor of which half is given.

    Example::

        >>> oneflow.fft.hfft(oneflow.ones(3))
        tensor([4., 0., 0., 0.])
    """
    return _cast_into(_c2r(input, n, dim, norm, True), out)


def ihfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of :func:`hfft`.

    Example::

        >>> oneflow.fft.ihfft(oneflow.ones(4)).real
        tensor([1., 0., 0.])
    """
    return _cast_into(_r2c("ihfft", input, n, dim, norm, False), out)


# --------------------------------------------------------------------------------------- several dimensions


def _n_c2c(x: Tensor, s: Any, dim: Any, norm: str | None, forward: bool) -> Tensor:
    x = _complex(x)
    sizes, dims = _many(x, s, dim)
    normalization = _normalization(norm, forward)
    return _C.fft_c2c(_resized(x, sizes, dims), dims, normalization, forward) if dims else x.clone()


def fftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The transform over several dimensions, all if none are named; ``s`` are their sizes.

    >>> import oneflow
    >>> oneflow.fft.fftn(oneflow.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return _cast_into(_n_c2c(input, s, dim, norm, True), out)


def ifftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of :func:`fftn`.

    Example::

        >>> oneflow.fft.ifftn(oneflow.ones(2, 2)).real
        tensor([[1., 0.],
                [0., 0.]])
    """
    return _cast_into(_n_c2c(input, s, dim, norm, False), out)


def rfftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The transform of a real tensor over several dimensions: half of the last one.

    Example::

        >>> oneflow.fft.rfftn(oneflow.ones(2, 4)).shape
        oneflow.Size([2, 3])
    """
    x = _real(input, "rfftn")
    sizes, dims = _many(x, s, dim)
    if not dims:
        raise RuntimeError("rfftn must transform at least one axis")
    return _cast_into(_C.fft_r2c(_resized(x, sizes, dims), dims, _normalization(norm, True), True), out)


def _half_sizes(name: str, x: Tensor, s: Any, dim: Any) -> tuple[list[int], list[int], int]:
    """Return the sizes of the given half, the dimensions, and the real points of the last one."""
    given = s if s is None or not isinstance(s, int) else (s,)
    sizes, dims = _many(x, given, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    last = 2 * (x.shape[dims[-1]] - 1) if given is None or given[-1] == -1 else given[-1]
    _points(last)
    return [*sizes[:-1], last // 2 + 1], dims, last


def irfftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of :func:`rfftn`.

    Example::

        >>> oneflow.fft.irfftn(oneflow.ones(2, 3)).shape
        oneflow.Size([2, 4])
    """
    x = _complex(input)
    sizes, dims, last = _half_sizes("irfftn", x, s, dim)
    return _cast_into(_C.fft_c2r(_resized(x, sizes, dims), dims, _normalization(norm, False), last), out)


def hfftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The real transform over several dimensions of a Hermitian tensor, given by half of the last one.

    Example::

        >>> oneflow.fft.hfftn(oneflow.ones(2, 3)).shape
        oneflow.Size([2, 4])
    """
    x = _complex(input)
    sizes, dims, last = _half_sizes("hfftn", x, s, dim)
    x = _resized(x, sizes, dims)
    normalization = _normalization(norm, True)
    if len(dims) > 1:
        x = _C.fft_c2c(x, dims[:-1], normalization, True)
    return _cast_into(_C.fft_c2r(x.conj(), dims[-1:], normalization, last), out)


def ihfftn(
    input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of :func:`hfftn`.

    Example::

        >>> oneflow.fft.ihfftn(oneflow.ones(2, 4)).shape
        oneflow.Size([2, 3])
    """
    x = _real(input, "ihfftn")
    sizes, dims = _many(x, s, dim)
    if not dims:
        raise RuntimeError("ihfftn must transform at least one axis")
    normalization = _normalization(norm, False)
    half = _C.fft_r2c(_resized(x, sizes, dims), dims[-1:], normalization, True).conj()
    return _cast_into(_C.fft_c2c(half, dims[:-1], normalization, False) if len(dims) > 1 else half, out)


def fft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`fftn` over the last two dimensions.

    Example::

        >>> oneflow.fft.fft2(oneflow.ones(2, 2)).real
        tensor([[4., 0.],
                [0., 0.]])
    """
    return fftn(input, s, dim, norm, out=out)


def ifft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`ifftn` over the last two dimensions.

    Example::

        >>> oneflow.fft.ifft2(oneflow.ones(2, 2)).real
        tensor([[1., 0.],
                [0., 0.]])
    """
    return ifftn(input, s, dim, norm, out=out)


def rfft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`rfftn` over the last two dimensions.

    Example::

        >>> oneflow.fft.rfft2(oneflow.ones(2, 4)).shape
        oneflow.Size([2, 3])
    """
    return rfftn(input, s, dim, norm, out=out)


def irfft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`irfftn` over the last two dimensions.

    Example::

        >>> oneflow.fft.irfft2(oneflow.ones(2, 3)).shape
        oneflow.Size([2, 4])
    """
    return irfftn(input, s, dim, norm, out=out)


def hfft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`hfftn` over the last two dimensions.

    Example::

        >>> oneflow.fft.hfft2(oneflow.ones(2, 3)).shape
        oneflow.Size([2, 4])
    """
    return hfftn(input, s, dim, norm, out=out)


def ihfft2(
    input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """:func:`ihfftn` over the last two dimensions.

    Example::

        >>> oneflow.fft.ihfft2(oneflow.ones(2, 4)).shape
        oneflow.Size([2, 3])
    """
    return ihfftn(input, s, dim, norm, out=out)


# ------------------------------------------------------------------------------------------------- helpers


def fftfreq(
    n: int, d: float = 1.0, *, out: Tensor | None = None, dtype: Any = None, device: Any = None, **options: Any
) -> Tensor:
    """Return the frequencies of :func:`fft`'s results for samples with spacing ``d``.

    >>> import oneflow
    >>> oneflow.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    positive = oneflow.arange((n + 1) // 2, dtype=dtype or oneflow.get_default_dtype(), device=device)
    negative = oneflow.arange(-(n // 2), 0, dtype=dtype or oneflow.get_default_dtype(), device=device)
    result = oneflow.cat([positive, negative]) * _spacing(n, d)
    return _cast_into(_optioned(result, options), out)


def rfftfreq(
    n: int, d: float = 1.0, *, out: Tensor | None = None, dtype: Any = None, device: Any = None, **options: Any
) -> Tensor:
    """Return the frequencies of :func:`rfft`'s results for samples with spacing ``d``.

    Example::

        >>> oneflow.fft.rfftfreq(4)
        tensor([0.0000, 0.2500, 0.5000])
    """
    half = oneflow.arange(n // 2 + 1, dtype=dtype or oneflow.get_default_dtype(), device=device)
    return _cast_into(_optioned(half * _spacing(n, d), options), out)


def _spacing(n: int, d: float) -> float:
    """The distance of two frequencies; infinite where the samples have none."""
    return 1.0 / (n * d) if n * d else math.copysign(math.inf, n * d)


def _optioned(t: Tensor, options: dict[str, Any]) -> Tensor:
    return t.requires_grad_(True) if options.get("requires_grad") else t


def _shifted(x: Tensor, dim: Any, back: bool) -> Tensor:
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    for d in dims:
        n = x.shape[_wrap(d, x.ndim)]
        by = (n + 1) // 2 if not back else n // 2
        if n and by:
            x = oneflow.cat([x.narrow(d, by, n - by), x.narrow(d, 0, by)], d)
    return x


def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Moves the frequency zero to the middle.

    Example::

        >>> oneflow.fft.fftshift(oneflow.arange(4))
        tensor([2, 3, 0, 1])
    """
    return _shifted(input, dim, back=False)


def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The inverse of :func:`fftshift`.

    Example::

        >>> oneflow.fft.ifftshift(oneflow.arange(4))
        tensor([2, 3, 0, 1])
    """
    return _shifted(input, dim, back=True)


_publish(globals())
