"""Operations over lists of tensors under the names of ``torch.foreach``: the op at each place of the lists.

Functions return a tuple of new tensors; those that end in an underscore change the tensors and return the list they
were given. What computes is in ``_functions/foreach.py``; here are the public signatures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import oneflow
from oneflow._base.overridable import publish as _publish
from oneflow._functions.foreach import FUNCTIONS as _FUNCTIONS

_Tensors = Sequence[oneflow.Tensor]
_Function = Callable[..., Any]

# ---- signatures, by family


def _unary(compute: _Function) -> _Function:
    def call(inputs: _Tensors, /) -> Any:
        return compute(inputs)

    return call


def _binary(compute: _Function) -> _Function:
    def call(inputs: _Tensors, other: Any, /) -> Any:
        return compute(inputs, other)

    return call


def _scaled(compute: _Function) -> _Function:
    def call(inputs: _Tensors, other: Any, /, *, alpha: Any = 1) -> Any:
        return compute(inputs, other) if alpha == 1 else compute(inputs, other, alpha=alpha)

    return call


def _at_most(compute: _Function) -> _Function:
    def call(inputs: _Tensors, max: Any, /) -> Any:
        return compute(inputs, max)

    return call


def _at_least(compute: _Function) -> _Function:
    def call(inputs: _Tensors, min: Any, /) -> Any:
        return compute(inputs, min)

    return call


def _power(compute: _Function) -> _Function:
    def call(input: Any, exponent: Any, /) -> Any:
        return compute(input, exponent)

    return call


def _power_in_place(compute: _Function) -> _Function:
    def call(inputs: _Tensors, exponent: Any, /) -> Any:
        return compute(inputs, exponent)

    return call


def _pointwise(compute: _Function) -> _Function:
    def call(inputs: _Tensors, tensor1: _Tensors, tensor2: _Tensors, /, *, value: Any = 1) -> Any:
        return compute(inputs, tensor1, tensor2, value)

    return call


def _between(compute: _Function) -> _Function:
    def call(inputs: _Tensors, end: _Tensors, weight: Any, /) -> Any:
        return compute(inputs, end, weight)

    return call


def _norms(compute: _Function) -> _Function:
    def call(inputs: _Tensors, /, *, ord: Any = 2, dtype: Any = None) -> Any:
        return compute(inputs, ord, dtype=dtype)

    return call


def _copies(compute: _Function) -> _Function:
    def call(inputs: _Tensors, /, *, memory_format: Any = None) -> Any:
        return compute(inputs, memory_format=memory_format)

    return call


def _copies_from(compute: _Function) -> _Function:
    def call(inputs: _Tensors, src: _Tensors, /, *, non_blocking: bool = False) -> Any:
        return compute(inputs, src, non_blocking)

    return call


def _products(compute: _Function) -> _Function:
    def call(inputs: _Tensors, mat2: _Tensors, /) -> Any:
        return compute(inputs, mat2)

    return call


# ---- names

# The arguments of a family's example, and what its further operands may be.
_OPERANDS = {
    "_unary": ("x", ""),
    "_binary": ("x, x", "``other``: a number, or a list with a number or a tensor for each tensor."),
    "_scaled": ("x, x", "``other``: a number or a tensor of one, or a list of them; ``alpha`` multiplies tensors."),
    "_at_most": ("x, 0.5", "``max``: a number, or a list with a number or a tensor for each tensor."),
    "_at_least": ("x, 0.5", "``min``: a number, or a list with a number or a tensor for each tensor."),
    "_power": (
        "x, 2",
        "``exponent``: a number, or a list of numbers or tensors; beside a list ``input`` may be a number.",
    ),
    "_power_in_place": ("x, 2", "``exponent``: a number, or a list with a number or a tensor for each tensor."),
    "_pointwise": ("x, x, x", "``value``: a factor, or a list or one-dimensional tensor with one for each tensor."),
    "_between": ("x, x, 0.5", "``end``: tensors; ``weight``: a number, or a list with a number or a tensor for each."),
    "_norms": ("x", "``ord``: of the norm over all elements; ``dtype``: of the sum."),
    "_copies": ("x", "``memory_format``: of the copies, by default that of the tensors."),
    "_copies_from": ("x, x", "``src``: a tensor for each tensor."),
    "_products": ("x, x", "``mat2``: a matrix for each matrix."),
}


def _op(name: str, family: Callable[[_Function], _Function]) -> _Function:
    """The public function ``name``, with its signature by family."""
    compute, is_in_place = _FUNCTIONS[f"_foreach_{name}"], name.endswith("_")
    function = family(compute if is_in_place else lambda *args, **options: tuple(compute(*args, **options)))
    operands, text = _OPERANDS[family.__name__]
    what = "in place; return ``inputs``." if is_in_place else "and return a tuple of the results."
    example = f"oneflow.foreach.{name}({operands}) is x" if is_in_place else f"len(oneflow.foreach.{name}({operands}))"
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Apply ``{name}`` to each tensor of ``inputs`` {what}\n\n"
        + (f"{text}\n\n" if text else "")
        + "Raises:\n    RuntimeError: a list is empty, or two are of different lengths.\n\n"
        + "Example::\n\n    >>> x = [oneflow.ones(2, 2), oneflow.ones(3, 3)]\n"
        + f"    >>> {example}\n    {True if is_in_place else 2}"
    )
    return function


abs = _op("abs", _unary)
abs_ = _op("abs_", _unary)
acos = _op("acos", _unary)
acos_ = _op("acos_", _unary)
add = _op("add", _scaled)
add_ = _op("add_", _scaled)
addcdiv = _op("addcdiv", _pointwise)
addcdiv_ = _op("addcdiv_", _pointwise)
addcmul = _op("addcmul", _pointwise)
addcmul_ = _op("addcmul_", _pointwise)
asin = _op("asin", _unary)
asin_ = _op("asin_", _unary)
atan = _op("atan", _unary)
atan_ = _op("atan_", _unary)
ceil = _op("ceil", _unary)
ceil_ = _op("ceil_", _unary)
clamp_max = _op("clamp_max", _at_most)
clamp_max_ = _op("clamp_max_", _at_most)
clamp_min = _op("clamp_min", _at_least)
clamp_min_ = _op("clamp_min_", _at_least)
clone = _op("clone", _copies)
copy_ = _op("copy_", _copies_from)
cos = _op("cos", _unary)
cos_ = _op("cos_", _unary)
cosh = _op("cosh", _unary)
cosh_ = _op("cosh_", _unary)
div = _op("div", _binary)
div_ = _op("div_", _binary)
erf = _op("erf", _unary)
erf_ = _op("erf_", _unary)
erfc = _op("erfc", _unary)
erfc_ = _op("erfc_", _unary)
exp = _op("exp", _unary)
exp_ = _op("exp_", _unary)
expm1 = _op("expm1", _unary)
expm1_ = _op("expm1_", _unary)
floor = _op("floor", _unary)
floor_ = _op("floor_", _unary)
frac = _op("frac", _unary)
frac_ = _op("frac_", _unary)
lerp = _op("lerp", _between)
lerp_ = _op("lerp_", _between)
lgamma = _op("lgamma", _unary)
lgamma_ = _op("lgamma_", _unary)
log = _op("log", _unary)
log10 = _op("log10", _unary)
log10_ = _op("log10_", _unary)
log1p = _op("log1p", _unary)
log1p_ = _op("log1p_", _unary)
log2 = _op("log2", _unary)
log2_ = _op("log2_", _unary)
log_ = _op("log_", _unary)
max = _op("max", _unary)
maximum = _op("maximum", _binary)
maximum_ = _op("maximum_", _binary)
minimum = _op("minimum", _binary)
minimum_ = _op("minimum_", _binary)
mm = _op("mm", _products)
mul = _op("mul", _binary)
mul_ = _op("mul_", _binary)
neg = _op("neg", _unary)
neg_ = _op("neg_", _unary)
norm = _op("norm", _norms)
pow = _op("pow", _power)
pow_ = _op("pow_", _power_in_place)
reciprocal = _op("reciprocal", _unary)
reciprocal_ = _op("reciprocal_", _unary)
round = _op("round", _unary)
round_ = _op("round_", _unary)
rsqrt = _op("rsqrt", _unary)
rsqrt_ = _op("rsqrt_", _unary)
sigmoid = _op("sigmoid", _unary)
sigmoid_ = _op("sigmoid_", _unary)
sign = _op("sign", _unary)
sign_ = _op("sign_", _unary)
sin = _op("sin", _unary)
sin_ = _op("sin_", _unary)
sinh = _op("sinh", _unary)
sinh_ = _op("sinh_", _unary)
sqrt = _op("sqrt", _unary)
sqrt_ = _op("sqrt_", _unary)
sub = _op("sub", _scaled)
sub_ = _op("sub_", _scaled)
tan = _op("tan", _unary)
tan_ = _op("tan_", _unary)
tanh = _op("tanh", _unary)
tanh_ = _op("tanh_", _unary)
trunc = _op("trunc", _unary)
trunc_ = _op("trunc_", _unary)
zero_ = _op("zero_", _unary)

__all__ = [name for name in dict(globals()) if f"_foreach_{name}" in _FUNCTIONS]
_publish(globals())
