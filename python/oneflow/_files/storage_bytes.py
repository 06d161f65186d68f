"""The memory behind tensors as bytes, and tensors over bytes read back. No pickling here."""

from __future__ import annotations

import array
import ctypes
import math
import sys
from typing import Any

import oneflow
from oneflow import Tensor

# dtype name -> name of the storage class that the file format uses
STORAGE_NAMES: dict[str, str] = {
    "float64": "DoubleStorage",
    "float32": "FloatStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
}
ITEM_SIZES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
    "complex64": 8,
    "complex128": 16,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "complex32": 4,
}
# Dtypes without a storage class of their own: files store the storage as bytes and name the tensor's dtype.
UNTYPED = tuple(name for name in ITEM_SIZES if name not in STORAGE_NAMES)


def dtype_name(dtype: Any) -> str:
    """Name of a dtype without its module: "float32"."""
    return str(dtype).rpartition(".")[2]


def extent(shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """Number of elements from the first to the last that a layout touches, 0 for an empty one."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))


def storage_address(tensor: Tensor) -> int:
    """Address where the storage of ``tensor`` begins: the identity that views of it share."""
    return tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()


def storage_length(tensor: Tensor) -> int:
    """Number of elements, of the dtype of ``tensor``, in its whole storage."""
    return tensor.untyped_storage().nbytes() // tensor.element_size()


def storage_bytes(tensor: Tensor, n_elements: int) -> bytes:
    """Copy of the first ``n_elements`` of the storage of ``tensor``."""
    if n_elements == 0:
        return b""
    flat = tensor.detach().as_strided((n_elements,), (1,), 0).cpu()
    # Not `ctypes.string_at`, which counts in 32 bits.
    return bytes((ctypes.c_char * (n_elements * flat.element_size())).from_address(flat.data_ptr()))


def memory_of(tensor: Tensor) -> memoryview:
    """The bytes of a contiguous tensor on the CPU, to be written. The caller keeps the tensor."""
    n_bytes = tensor.numel() * tensor.element_size()
    return memoryview((ctypes.c_char * n_bytes).from_address(tensor.data_ptr()) if n_bytes else bytearray()).cast("B")


def flat_tensor(data: Any, dtype: str, n_elements: int) -> Tensor:
    """New 1-D CPU tensor with the ``n_elements`` that ``data`` holds. The caller has checked the length."""
    tensor = oneflow.empty((n_elements,), dtype=getattr(oneflow, dtype))
    n_bytes = n_elements * ITEM_SIZES[dtype]
    if len(data) != n_bytes:
        raise RuntimeError(f"a storage of {n_elements} {dtype} elements needs {n_bytes} bytes, got {len(data)}")
    if n_bytes:
        ctypes.memmove(tensor.data_ptr(), bytes(data), n_bytes)
    return tensor


def swap_bytes(data: bytes, dtype: str) -> bytes:
    """``data`` with the bytes of every number reversed."""
    width = ITEM_SIZES[dtype] // (2 if dtype.startswith("complex") else 1)
    if width == 1:
        return data
    words = array.array({2: "H", 4: "I", 8: "Q"}[width], data)
    words.byteswap()
    return words.tobytes()


def check_view(n_elements: int, offset: Any, shape: Any, stride: Any) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return the layout if it lies inside a storage of ``n_elements``; raise RuntimeError if not."""
    shape, stride = tuple(shape), tuple(stride)
    numbers = (offset, *shape, *stride)
    if len(shape) != len(stride) or len(shape) > 64 or not all(type(n) is int and 0 <= n < 2**63 for n in numbers):
        raise RuntimeError(f"a tensor in the file has size {shape}, stride {stride} and offset {offset}")
    if math.prod(shape) and offset + extent(shape, stride) > n_elements:
        raise RuntimeError(
            f"a tensor in the file with size {shape}, stride {stride} and offset {offset} "
            f"is outside its storage of {n_elements} elements"
        )
    return offset, shape, stride


NATIVE_ORDER = sys.byteorder
