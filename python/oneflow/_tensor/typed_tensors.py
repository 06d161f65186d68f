"""``FloatTensor``, ``LongTensor`` and their like: the older names of tensors by dtype, on the CPU and on a GPU.

They construct tensors and support ``isinstance``; no tensor is an instance of such a class.
"""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor

DTYPES = {
    "BFloat16": "bfloat16",
    "Bool": "bool",
    "Byte": "uint8",
    "Char": "int8",
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "Int": "int32",
    "Long": "int64",
    "Short": "int16",
}


class TensorType(type):
    """The class of ``FloatTensor``: a dtype and a kind of device, called with sizes or with data."""

    dtype: Any
    device_type: str

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        device = cls.device_type if device is None else device
        if oneflow.device(device).type != cls.device_type:
            raise RuntimeError(
                f"legacy constructor expects device type: {cls.device_type} but device type: {device} was passed"
            )
        if len(args) == 1 and isinstance(args[0], Tensor):
            given = args[0]
            if given.dtype != cls.dtype:
                raise TypeError(f"expected {cls.__name__} (got {given.type()})")
            return given.detach()
        if len(args) == 1 and isinstance(args[0], (oneflow.UntypedStorage, oneflow.TypedStorage)):
            return oneflow.empty((0,), dtype=cls.dtype, device=args[0].device).set_(args[0])
        if len(args) == 1 and not isinstance(args[0], (int, oneflow.Size)):
            return oneflow.tensor(args[0], dtype=cls.dtype, device=device)
        sizes = tuple(args[0]) if len(args) == 1 and isinstance(args[0], oneflow.Size) else args or (0,)
        return oneflow.empty(sizes, dtype=cls.dtype, device=device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype == cls.dtype and instance.device.type == cls.device_type

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"


def make(name: str, place: str = "cpu") -> TensorType:
    """The type of one name, such as "LongTensor"."""
    module = "oneflow" if place == "cpu" else f"oneflow.{place}"
    dtype = DTYPES[name.removesuffix("Tensor")]
    doc = (
        f"Tensors of {dtype} on {place}: ``{name}(2, 3)`` is uninitialised, ``{name}([1, 0])`` holds the data.\n\n"
        f"``isinstance(x, {name})`` asks for dtype and device.\n\nExample::\n\n"
        f"    >>> isinstance(oneflow.ones(1, dtype=oneflow.complex64), {module}.{name})\n    False"
    )
    body = {"__module__": module, "__doc__": doc, "dtype": getattr(oneflow, dtype), "device_type": place}
    return TensorType(name, (), body)


def of(name: Any) -> tuple[Any, str]:
    """Dtype and device type that a tensor type or its name means.

    Raises:
        TypeError: it is neither.
    """
    if name is Tensor:
        return oneflow.get_default_dtype(), "cpu"
    if isinstance(name, TensorType):
        return name.dtype, name.device_type
    place, _, kind = str(name).rpartition(".")
    kind = kind.removesuffix("Tensor")
    if not isinstance(name, str) or not place or kind not in DTYPES:
        raise TypeError("invalid type object")
    return getattr(oneflow, DTYPES[kind]), "cuda" if place.endswith("cuda") else "cpu"


__all__ = []

for _kind in DTYPES:
    globals()[f"{_kind}Tensor"] = make(f"{_kind}Tensor")
    __all__.append(f"{_kind}Tensor")
