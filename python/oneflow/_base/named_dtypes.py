"""Names of dtypes that no tensor here has: programs list them in tables and read their limits.

Nothing computes with them. Ops refuse them, since they hold no dtype of the core.
"""

from __future__ import annotations

from typing import Any, NoReturn

from oneflow import _oneflow


class NamedDtype:
    """A dtype by name alone."""

    def __init__(self, name: str, bits: int, kind: str) -> None:
        self._name = name
        self.itemsize = max(bits // 8, 1)
        self.is_floating_point = kind == "float"
        self.is_complex = kind == "complex"
        self._kind = kind
        self.__module__ = "oneflow"

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Lets ``isinstance(name, dtype)`` hold, as in PyTorch."""
        return _oneflow.dtype

    @property
    def is_signed(self) -> bool:
        """Whether it holds negative numbers."""
        if self._kind == "none":
            raise RuntimeError(f"is_signed is not supported for quantized types ({self._name})")
        return self._kind != "uint"

    def __repr__(self) -> str:
        return f"oneflow.{self._name}"

    def __reduce__(self) -> str:
        return self._name

    def to_real(self) -> NoReturn:
        """Raise TypeError: no tensor has this dtype."""
        raise NotImplementedError(f"oneflow has no tensors of dtype {self._name}")

    to_complex = to_real


_BITS = {
    "float": {"float4_e2m1fn_x2": 8},
    "uint": {"bit": 8, **{f"uint{bits}": 8 for bits in range(1, 8)}},
    "int": {f"int{bits}": 8 for bits in range(1, 8)},
    "complex": {"bcomplex32": 32},
    # Quantized, and bits without a meaning: they have no sign to speak of.
    "none": {"quint8": 8, "quint4x2": 8, "quint2x4": 8, "qint8": 8, "qint32": 32}
    | {"bits8": 8, "bits1x8": 8, "bits2x4": 8, "bits4x2": 8, "bits16": 16},
}
NAMED: dict[str, Any] = {
    name: NamedDtype(name, bits, kind) for kind, named in _BITS.items() for name, bits in named.items()
}
globals().update(NAMED)
__all__ = list(NAMED)
