"""Names of dtypes that no tensor here has: programs list them in tables and ask for their limits.

Nothing computes with them. An op that is given one refuses it, since it holds no dtype of the core.
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
        self.is_signed = kind != "uint" and name != "float8_e8m0fnu"
        self.__module__ = "oneflow"

    @property
    def __class__(self) -> Any:
        """What ``isinstance`` asks: such a name counts as a dtype, as in PyTorch."""
        return _oneflow.dtype

    def __repr__(self) -> str:
        return f"oneflow.{self._name}"

    def __reduce__(self) -> str:
        return self._name

    def to_real(self) -> NoReturn:
        """No tensor has this dtype, nor one that goes with it."""
        raise NotImplementedError(f"oneflow has no tensors of dtype {self._name}")

    to_complex = to_real


# bits, eps, max, min, the smallest normal number, decimal resolution
FLOAT_LIMITS = {
    "float8_e4m3fn": (8, 2.0**-3, 448.0, -448.0, 2.0**-6, 1.0),
    "float8_e4m3fnuz": (8, 2.0**-3, 240.0, -240.0, 2.0**-7, 1.0),
    "float8_e5m2": (8, 2.0**-2, 57344.0, -57344.0, 2.0**-14, 1.0),
    "float8_e5m2fnuz": (8, 2.0**-2, 57344.0, -57344.0, 2.0**-15, 1.0),
    "float8_e8m0fnu": (8, 1.0, 2.0**127, 2.0**-127, 2.0**-127, 1.0),
}
_BITS = {
    "float": {**{name: limits[0] for name, limits in FLOAT_LIMITS.items()}, "float4_e2m1fn_x2": 8},
    "uint": {"uint16": 16, "uint32": 32, "uint64": 64, "quint8": 8},
    "int": {"qint8": 8, "qint32": 32},
    "complex": {"complex32": 32},
}
NAMED: dict[str, Any] = {
    name: NamedDtype(name, bits, kind) for kind, named in _BITS.items() for name, bits in named.items()
}
NAMED["chalf"] = NAMED["complex32"]
globals().update(NAMED)
__all__ = list(NAMED)
