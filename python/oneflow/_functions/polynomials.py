"""Orthogonal polynomials of whole degrees, elementwise, by their recurrences.

The degree is broadcast beside the argument and cut to an integer; below zero the value is zero. No gradients: a degree
has none, and PyTorch returns none for the argument either. The work grows with the largest degree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor

__all__ = [
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
]

_First = Callable[[Tensor], Tensor]
_Next = Callable[[int, Tensor, Tensor, Tensor], Tensor]
_Closed = Callable[[Tensor, Tensor], Tensor]
# So many steps of a recurrence are run; a higher degree needs a closed form.
_STEPS = 4096


def _polynomial(
    name: str,
    what: str,
    first: _First,
    following: _Next,
    limits: tuple[int, int] | None = None,
    closed: _Closed | None = None,
) -> object:
    """``first(x)`` has degree 1, ``following(k, x, p[k], p[k - 1])`` degree k + 1, ``closed(x, n)`` degree n."""

    def polynomial(input: Tensor | float, n: Tensor | float, *, out: Tensor | None = None) -> Tensor:
        if not isinstance(input, Tensor) and not isinstance(n, Tensor):
            raise TypeError(f"{name}(): one of the arguments must be a Tensor, not {type(input).__name__}")
        dtype = oneflow.result_type(input, n)
        if not dtype.is_floating_point:
            dtype = oneflow.get_default_dtype()
        if dtype not in (oneflow.float32, oneflow.float64):
            raise NotImplementedError(f"\"{name}\" not implemented for '{str(dtype).split('.')[-1]}'")
        device = next(t.device for t in (input, n) if isinstance(t, Tensor))
        with oneflow.no_grad():
            x = oneflow.as_tensor(input, dtype=dtype, device=device)
            degree = oneflow.as_tensor(n, dtype=dtype, device=device)
            x, degree = oneflow.broadcast_tensors(x, degree.trunc())
            top = _top(degree)
            if limits is not None:
                most = limits[dtype == oneflow.float64]
                y = _value(x, degree, min(top, most), first, following)
                y = oneflow.where(degree > most, float("nan"), y)
            elif top <= _STEPS:
                y = _value(x, degree, top, first, following)
            elif closed is not None:
                y = _value(x, degree, _STEPS, first, following)
                # An overflow stays NaN.
                y = oneflow.where((degree > _STEPS) & ~y.isnan(), closed(x, degree).to(dtype), y)
            else:
                raise ValueError(f"{name}(): degrees above {_STEPS} are not supported, got {top}")
        if out is None:
            return y
        if not oneflow.can_cast(y.dtype, out.dtype):
            raise RuntimeError(f"result type {y.dtype} can't be cast to the desired output type {out.dtype}")
        return out.resize_(y.shape).copy_(y) if out.shape != y.shape else out.copy_(y)

    polynomial.__name__ = polynomial.__qualname__ = name
    example = f">>> oneflow.special.{name.removeprefix('special_')}(oneflow.ones(2), 0)\n    tensor([1., 1.])"
    polynomial.__doc__ = f"{what} of degree ``n`` at ``input``.\n\nExample::\n\n    {example}"
    return polynomial


def _top(degree: Tensor) -> int:
    return int(degree.nan_to_num(0.0, 0.0, 0.0).max().item()) if degree.numel() else 0


def _value(x: Tensor, degree: Tensor, top: int, first: _First, following: _Next) -> Tensor:
    before, now = oneflow.ones_like(x), first(x)
    y = oneflow.where(degree < 0, 0.0, oneflow.where(degree == 0, before, now))
    for k in range(1, top):
        before, now = now, following(k, x, now, before)
        y = oneflow.where(degree > k, now, y)
        # From here on everything is NaN.
        if k % 64 == 0 and bool(now.isnan().all()):
            break
    return y


def _doubled(k: int, x: Tensor, now: Tensor, before: Tensor) -> Tensor:
    return 2 * x * now - before


def _shifted(first: _First, closed: _Closed) -> dict[str, Any]:
    return {
        "first": lambda x: first(2 * x - 1),
        "following": lambda k, x, now, before: _doubled(k, 2 * x - 1, now, before),
        "closed": lambda x, n: closed(2 * x - 1, n),
    }


def _chebyshev(of_angle: Callable[[Tensor, Tensor], Tensor], right: _Closed, left: _Closed) -> _Closed:
    """Degree n at ``x = cos(angle)``; ``right(n, sign)`` at 1 and ``left(n, sign)`` at -1; sign is ``(-1) ** n``."""

    def closed(x: Tensor, n: Tensor) -> Tensor:
        n = n.double()
        sign = 1 - 2 * (n % 2)
        value = oneflow.real(of_angle(x.to(oneflow.complex128).acos(), n))
        return oneflow.where(x == 1, right(n, sign), oneflow.where(x == -1, left(n, sign), value))

    return closed


_CLOSED_T = _chebyshev(lambda a, n: (n * a).cos(), lambda n, sign: oneflow.ones_like(n), lambda n, sign: sign)
_CLOSED_U = _chebyshev(
    lambda a, n: ((n + 1) * a).sin() / a.sin(), lambda n, sign: n + 1, lambda n, sign: sign * (n + 1)
)
_CLOSED_V = _chebyshev(
    lambda a, n: ((n + 0.5) * a).cos() / (a / 2).cos(),
    lambda n, sign: oneflow.ones_like(n),
    lambda n, sign: sign * (2 * n + 1),
)
_CLOSED_W = _chebyshev(
    lambda a, n: ((n + 0.5) * a).sin() / (a / 2).sin(), lambda n, sign: 2 * n + 1, lambda n, sign: sign
)


def _t(x: Tensor) -> Tensor:
    return x.clone()


def _u(x: Tensor) -> Tensor:
    return 2 * x


def _v(x: Tensor) -> Tensor:
    return 2 * x - 1


def _w(x: Tensor) -> Tensor:
    return 2 * x + 1


_HERMITE_LIMITS = (128, 512)

chebyshev_polynomial_t = _polynomial(
    "special_chebyshev_polynomial_t", "Chebyshev polynomial of the first kind", _t, _doubled, closed=_CLOSED_T
)
chebyshev_polynomial_u = _polynomial(
    "special_chebyshev_polynomial_u", "Chebyshev polynomial of the second kind", _u, _doubled, closed=_CLOSED_U
)
chebyshev_polynomial_v = _polynomial(
    "special_chebyshev_polynomial_v", "Chebyshev polynomial of the third kind", _v, _doubled, closed=_CLOSED_V
)
chebyshev_polynomial_w = _polynomial(
    "special_chebyshev_polynomial_w", "Chebyshev polynomial of the fourth kind", _w, _doubled, closed=_CLOSED_W
)
shifted_chebyshev_polynomial_t = _polynomial(
    "special_shifted_chebyshev_polynomial_t",
    "Chebyshev polynomial of the first kind on [0, 1]",
    **_shifted(_t, _CLOSED_T),
)
shifted_chebyshev_polynomial_u = _polynomial(
    "special_shifted_chebyshev_polynomial_u",
    "Chebyshev polynomial of the second kind on [0, 1]",
    **_shifted(_u, _CLOSED_U),
)
shifted_chebyshev_polynomial_v = _polynomial(
    "special_shifted_chebyshev_polynomial_v",
    "Chebyshev polynomial of the third kind on [0, 1]",
    **_shifted(_v, _CLOSED_V),
)
shifted_chebyshev_polynomial_w = _polynomial(
    "special_shifted_chebyshev_polynomial_w",
    "Chebyshev polynomial of the fourth kind on [0, 1]",
    **_shifted(_w, _CLOSED_W),
)
hermite_polynomial_h = _polynomial(
    "special_hermite_polynomial_h",
    "Physicist's Hermite polynomial",
    _u,
    lambda k, x, now, before: 2 * x * now - 2 * k * before,
    _HERMITE_LIMITS,
)
hermite_polynomial_he = _polynomial(
    "special_hermite_polynomial_he",
    "Probabilist's Hermite polynomial",
    _t,
    lambda k, x, now, before: x * now - k * before,
    _HERMITE_LIMITS,
)
laguerre_polynomial_l = _polynomial(
    "special_laguerre_polynomial_l",
    "Laguerre polynomial",
    lambda x: 1 - x,
    lambda k, x, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1),
)
legendre_polynomial_p = _polynomial(
    "special_legendre_polynomial_p",
    "Legendre polynomial",
    _t,
    lambda k, x, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1),
)
