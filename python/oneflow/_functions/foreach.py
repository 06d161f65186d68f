"""``oneflow._foreach_add_`` and its like: functions of lists of tensors, as optimizers written for PyTorch call them.

Each is the op, tensor by tensor. The package's own optimizers do not use them: theirs take the lists into one op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import oneflow
from oneflow import Tensor

_UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal "
    "round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc zero"
).split()
_BINARY = "add clamp_max clamp_min copy div maximum minimum mul pow sub".split()
_IN_PLACE_ONLY = ("copy", "zero")


def _spread(value: Any, n: int, name: str) -> list[Any]:
    """One operand for each tensor: those of a list, or the same one for all."""
    if not isinstance(value, (list, tuple)):
        return [value] * n
    if len(value) != n:
        if not any(isinstance(item, Tensor) for item in value):
            raise RuntimeError(
                f"_foreach_{name}: Tensor list must have same number of elements as scalar list. "
                f"Got {n} and {len(value)}"
            )
        raise RuntimeError(
            f"_foreach_{name}: Tensor lists must have the same number of tensors, got {n} and {len(value)}"
        )
    return list(value)


def _not_empty(tensors: Sequence[Any]) -> Sequence[Any]:
    if len(tensors) == 0:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return tensors


def _call(tensor: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(tensor, name)(*args, **kwargs)


def _unary(name: str, in_place: bool) -> Callable[..., Any]:
    method = name + "_" * in_place

    def function(self: Sequence[Tensor]) -> Any:
        results = [_call(x, method) for x in _not_empty(self)]
        return self if in_place else results

    return function


def _binary(name: str, in_place: bool) -> Callable[..., Any]:
    def function(self: Any, other: Any, *rest: Any, **kwargs: Any) -> Any:
        if not isinstance(self, (list, tuple)):
            # `_foreach_pow(2, exponents)`
            return [_call(oneflow, name, self, x) for x in _not_empty(other)]
        results = []
        for x, y in zip(_not_empty(self), _spread(other, len(self), name), strict=True):
            # Numbers have a limit where tensors have a maximum.
            limit = {"maximum": "clamp_min", "minimum": "clamp_max"}.get(name, name)
            method = (name if isinstance(y, Tensor) else limit) + "_" * in_place
            if name in ("maximum", "minimum") and isinstance(y, Tensor) and in_place:
                results.append(x.copy_(_call(x, name, y)))
            else:
                results.append(_call(x, method, y, *rest, **kwargs))
        return self if in_place else results

    return function


def _ternary(name: str, in_place: bool) -> Callable[..., Any]:
    method = name + "_" * in_place

    def function(self: Sequence[Tensor], tensor1: Any, tensor2: Any, value: Any = 1, *, scalars: Any = None) -> Any:
        given = value if scalars is None else scalars
        if isinstance(given, Tensor) and given.dim() != 1:
            raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {given.dim()} instead.")
        numbers = given.tolist() if isinstance(given, Tensor) else given
        n = len(_not_empty(self))
        for others in (tensor1, tensor2):
            if len(others) != n:
                raise RuntimeError(
                    f"_foreach_{name}: Tensor lists must have the same number of tensors, got {n} and {len(others)}"
                )
        results = [
            _call(x, method, a, b, value=v.item() if isinstance(v, Tensor) else v)
            for x, a, b, v in zip(self, tensor1, tensor2, _spread(numbers, n, name), strict=True)
        ]
        return self if in_place else results

    return function


def _lerp(in_place: bool) -> Callable[..., Any]:
    def function(self: Sequence[Tensor], tensors1: Sequence[Tensor], weight: Any) -> Any:
        weights = _spread(weight, len(_not_empty(self)), "lerp")
        pairs = zip(self, tensors1, weights, strict=True)
        results = [_call(x, "lerp" + "_" * in_place, y, w) for x, y, w in pairs]
        return self if in_place else results

    return function


def _foreach_norm(self: Sequence[Tensor], ord: Any = 2, dtype: Any = None) -> list[Tensor]:
    """The norm of each tensor."""
    return [oneflow.linalg.vector_norm(x, ord, dtype=dtype) for x in _not_empty(self)]


def _foreach_max(self: Sequence[Tensor]) -> list[Tensor]:
    """The largest element of each tensor."""
    return [x.max() for x in _not_empty(self)]


def _foreach_clone(self: Sequence[Tensor], *, memory_format: Any = None) -> list[Tensor]:
    """A copy of each tensor."""
    return [x.clone(memory_format=memory_format or oneflow.preserve_format) for x in _not_empty(self)]


def _foreach_mm(self: Sequence[Tensor], mat2: Sequence[Tensor]) -> list[Tensor]:
    """The product of each two matrices."""
    return [x @ y for x, y in zip(_not_empty(self), _spread(mat2, len(self), "mm"), strict=True)]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_foreach_norm": _foreach_norm,
    "_foreach_max": _foreach_max,
    "_foreach_clone": _foreach_clone,
    "_foreach_mm": _foreach_mm,
}
for _names, _make in ((_UNARY, _unary), (_BINARY, _binary), (("addcdiv", "addcmul"), _ternary)):
    for _name in _names:
        if _name not in _IN_PLACE_ONLY:
            FUNCTIONS[f"_foreach_{_name}"] = _make(_name, False)
        FUNCTIONS[f"_foreach_{_name}_"] = _make(_name, True)
FUNCTIONS["_foreach_lerp"], FUNCTIONS["_foreach_lerp_"] = _lerp(False), _lerp(True)
for _name, _function in FUNCTIONS.items():
    _function.__name__ = _function.__qualname__ = _name
    _function.__doc__ = _function.__doc__ or f"``{_name.removeprefix('_foreach_')}`` of each tensor of a list."
globals().update(FUNCTIONS)
