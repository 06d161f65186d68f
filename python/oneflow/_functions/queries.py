"""Small questions about tensors and dtypes that need no op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from oneflow import _oneflow
from oneflow._oneflow import Tensor
from oneflow._oneflow import dtype as DType


def is_tensor(obj: Any) -> bool:
    """Return whether ``obj`` is a Tensor.

    Example::

        >>> oneflow.is_tensor(oneflow.ones(2)), oneflow.is_tensor([1.0])
        (True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """Return whether ``obj`` is a storage object.

    Example::

        >>> oneflow.is_storage(oneflow.ones(2).untyped_storage())
        True
    """
    from oneflow.storage import TypedStorage, UntypedStorage

    return isinstance(obj, (TypedStorage, UntypedStorage))


def is_floating_point(input: Tensor) -> bool:
    """Return whether the dtype of ``input`` is floating-point.

    Example::

        >>> oneflow.is_floating_point(oneflow.ones(1))
        True
    """
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Return whether the dtype of ``input`` is complex.

    Example::

        >>> oneflow.is_complex(oneflow.ones(1, dtype=oneflow.complex64))
        True
    """
    return input.is_complex()


def is_conj(input: Tensor) -> bool:
    """Always False: conjugates are computed, never flags on a tensor.

    Example::

        >>> oneflow.is_conj(oneflow.ones(1))
        False
    """
    return False


def is_neg(input: Tensor) -> bool:
    """Always False: negations are computed, never flags on a tensor.

    Example::

        >>> oneflow.is_neg(oneflow.ones(1))
        False
    """
    return False


def resolve_conj(input: Tensor) -> Tensor:
    """``input`` itself: it has no flag to resolve.

    Example::

        >>> oneflow.resolve_conj(oneflow.ones(1))
        tensor([1.])
    """
    return input


def resolve_neg(input: Tensor) -> Tensor:
    """``input`` itself: it has no flag to resolve.

    Example::

        >>> oneflow.resolve_neg(oneflow.ones(1))
        tensor([1.])
    """
    return input


def is_nonzero(input: Tensor) -> bool:
    """Return whether the single element of ``input`` is not zero.

    Example::

        >>> oneflow.is_nonzero(oneflow.tensor(2.0))
        True
    """
    if input.numel() != 1:
        raise RuntimeError(
            "Boolean value of Tensor with no values is ambiguous"
            if input.numel() == 0
            else "Boolean value of Tensor with more than one value is ambiguous"
        )
    return bool(input.item())


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Return whether all elements satisfy ``abs(input - other) <= atol + rtol * abs(other)``.

    Example::

        >>> oneflow.allclose(oneflow.tensor([1.0]), oneflow.tensor([1.0 + 1e-7]))
        True
    """
    return bool(input.isclose(other, rtol, atol, equal_nan).all())


def equal(input: Tensor, other: Tensor) -> bool:
    """Return whether both tensors have the same size and the same elements.

    >>> import oneflow
    >>> oneflow.equal(oneflow.tensor([1, 2]), oneflow.tensor([1, 2]))
    True
    """
    for name, value in (("input", input), ("other", other)):
        if not isinstance(value, Tensor):
            raise TypeError(f"equal(): argument '{name}' must be Tensor, not {type(value).__name__}")
    return input.shape == other.shape and bool((input == other).all().item())


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return whether both tensors have the same shape.

    Example::

        >>> oneflow.is_same_size(oneflow.ones(2), oneflow.zeros(2))
        True
    """
    return input.shape == other.shape


def nonzero(input: Tensor, _as_tuple: bool | None = None, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """Indices of the non-zero elements of ``input``: one row each, or with ``as_tuple`` one tensor a dimension.

    OneFlow's second position is ``as_tuple``.

    >>> import oneflow
    >>> oneflow.nonzero(oneflow.tensor([0, 3, 0, 4]), as_tuple=True)
    (tensor([1, 3]),)
    """
    if as_tuple or _as_tuple:
        if out is not None:
            raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
        return _oneflow._C.nonzero_tuple(input)
    return _oneflow.nonzero(input, out=out)


def numel(input: Tensor) -> int:
    """Number of elements of ``input``.

    Example::

        >>> oneflow.numel(oneflow.ones(2, 3))
        6
    """
    return input.numel()


@dataclass(frozen=True, repr=False)
class finfo:
    """Limits of a floating-point dtype: ``bits, eps, min, max, tiny, smallest_normal, resolution, dtype``.

    Args:
        type: the dtype; the default dtype if left out.

    Example::

        >>> oneflow.finfo(oneflow.float32).max > 1e38
        True
    """

    bits: int
    eps: float
    max: float
    min: float
    tiny: float
    smallest_normal: float
    resolution: float
    dtype: str

    def __init__(self, type: DType | None = None) -> None:
        name = _name(_oneflow.get_default_dtype() if type is None else type)
        if isinstance(type, DType) and type.is_complex:
            name = _name(type.to_real())
        if name in _FLOAT8:
            bits, eps, largest, smallest, tiny, resolution = _FLOAT8[name]
            self._set(bits, eps, largest, smallest, tiny, tiny, resolution, name)
            return
        if name not in _FLOATS:
            raise TypeError(f"finfo() requires a floating point input type, got {type}; use iinfo for integers")
        bits, exponent_bits, resolution = _FLOATS[name]
        fraction_bits = bits - 1 - exponent_bits
        bias = 2 ** (exponent_bits - 1) - 1
        largest = (2.0 - 2.0**-fraction_bits) * 2.0**bias
        tiny = 2.0 ** (1 - bias)
        self._set(bits, 2.0**-fraction_bits, largest, -largest, tiny, tiny, resolution, name)

    def _set(self, *values: Any) -> None:
        for field, value in zip(self.__dataclass_fields__, values, strict=True):
            object.__setattr__(self, field, value)

    def __repr__(self) -> str:
        shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        text = ", ".join(f"{field}={getattr(self, field):g}" for field in shown)
        return f"finfo({text}, dtype={self.dtype})"


@dataclass(frozen=True, repr=False)
class iinfo:
    """Limits of an integer dtype: ``bits, min, max, dtype``.

    Example::

        >>> oneflow.iinfo(oneflow.int8).max
        127
    """

    bits: int
    max: int
    min: int
    dtype: str

    def __init__(self, type: DType) -> None:
        name = _name(type)
        if name not in _INTS:
            raise TypeError(f"iinfo() requires an integer input type, got {type}; use finfo for floating point")
        bits, signed = _INTS[name]
        values = (bits, 2 ** (bits - signed) - 1, -(2 ** (bits - 1)) if signed else 0, name)
        for field, value in zip(self.__dataclass_fields__, values, strict=True):
            object.__setattr__(self, field, value)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"


# bits, exponent bits, decimal resolution
_FLOATS = {
    "float16": (16, 5, 1e-3),
    "bfloat16": (16, 8, 1e-2),
    "float32": (32, 8, 1e-6),
    "float64": (64, 11, 1e-15),
}
# bits, eps, max, min, the smallest normal number, decimal resolution
_FLOAT8 = {
    "float8_e4m3fn": (8, 2.0**-3, 448.0, -448.0, 2.0**-6, 1.0),
    "float8_e4m3fnuz": (8, 2.0**-3, 240.0, -240.0, 2.0**-7, 1.0),
    "float8_e5m2": (8, 2.0**-2, 57344.0, -57344.0, 2.0**-14, 1.0),
    "float8_e5m2fnuz": (8, 2.0**-2, 57344.0, -57344.0, 2.0**-15, 1.0),
    "float8_e8m0fnu": (8, 1.0, 2.0**127, 2.0**-127, 2.0**-127, 1.0),
}
_INTS = {
    "uint8": (8, 0),
    "int8": (8, 1),
    "int16": (16, 1),
    "int32": (32, 1),
    "int64": (64, 1),
    "uint16": (16, 0),
    "uint32": (32, 0),
    "uint64": (64, 0),
}


def _name(type: DType) -> str:
    return str(type).rpartition(".")[2]
