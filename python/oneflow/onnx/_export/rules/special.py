"""Special functions as series of ordinary ops, to the precision of single floats."""

from __future__ import annotations

import math
from typing import Any

from oneflow.onnx._export.rules import Op, rule
from oneflow.onnx._export.rules.composed import Terms


def _polynomial(t: Terms, x: str, coefficients: tuple[float, ...]) -> str:
    """By Horner's scheme, the highest power first."""
    made = t.number(coefficients[0])
    for c in coefficients[1:]:
        made = t.Add(t.Mul(made, x), c)
    return made


# Mike Giles, "Approximating the erfinv function", 2012: in w - 2.5 for w < 5, and in sqrt(w) - 3 beyond.
_CENTRE: tuple[float, ...] = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
)
_CENTRE += (-0.00417768164, 0.246640727, 1.50140941)
_TAIL: tuple[float, ...] = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
)
_TAIL += (0.00943887047, 1.00167406, 2.83297682)


@rule("erfinv")
def erfinv(n: Op) -> Any:
    t = Terms(n)
    x = n.x("input", n.out.dtype)
    w = t.Neg(t.Log(t.Mul(t.Sub(1, x), t.Add(x, 1))))
    centre = _polynomial(t, t.Sub(w, 2.5), _CENTRE)
    tail = _polynomial(t, t.Sub(t.Sqrt(t.Max(w, 5.0)), 3.0), _TAIL)
    made = t.Mul(t.Where(t.Less(w, 5.0), centre, tail), x)
    return t.Where(t.Equal(t.Abs(x), 1), t.Mul(x, math.inf), made)


# Lanczos' series for g = 7.
_LANCZOS: tuple[float, ...] = (
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
)
_LANCZOS += (-0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7)


def _reflected(t: Terms, x: str) -> tuple[str, str]:
    """Whether a number lies left of 1/2, and 1 - x there, x elsewhere."""
    left = t.Less(x, 0.5)
    return left, t.Where(left, t.Sub(1, x), x)


@rule("lgamma")
def lgamma(n: Op) -> Any:
    t = Terms(n)
    x = n.x("input", n.out.dtype)
    left, y = _reflected(t, x)
    z = t.Sub(y, 1)
    series = t.number(0.99999999999980993)
    for i, c in enumerate(_LANCZOS):
        series = t.Add(series, t.Div(c, t.Add(z, i + 1)))
    base = t.Add(z, 7.5)
    made = t.Add(t.Sub(t.Mul(t.Add(z, 0.5), t.Log(base)), base), t.Log(t.Mul(series, math.sqrt(2 * math.pi))))
    # The sine of the distance to the nearest integer loses no digits.
    sine = t.Abs(t.Sin(t.Mul(t.Sub(x, t.Round(x)), math.pi)))
    made = t.Where(left, t.Sub(t.Sub(math.log(math.pi), t.Log(sine)), made), made)
    return t.Where(t.Equal(t.Abs(x), math.inf), math.inf, made)


@rule("digamma")
def digamma(n: Op) -> Any:
    t = Terms(n)
    x = n.x("input", n.out.dtype)
    left, y = _reflected(t, x)
    steps = None
    for i in range(6):
        step = t.Reciprocal(t.Add(y, i))
        steps = step if steps is None else t.Add(steps, step)
    assert steps is not None
    z = t.Add(y, 6)
    square = t.Reciprocal(t.Mul(z, z))
    series = t.Mul(square, _polynomial(t, square, (-1 / 240, 1 / 252, -1 / 120, 1 / 12)))
    made = t.Sub(t.Sub(t.Sub(t.Log(z), t.Div(0.5, z)), series), steps)
    cotangent = t.Div(math.pi, t.Tan(t.Mul(t.Sub(x, t.Round(x)), math.pi)))
    made = t.Where(left, t.Sub(made, cotangent), made)
    whole = t.And(t.Less(x, 0), t.Equal(x, t.Round(x)))
    return t.Where(t.Equal(x, 0), t.Div(-1.0, x), t.Where(whole, math.nan, made))
