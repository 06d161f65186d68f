"""The safetensors format: reading and writing, with nothing but the standard library.

A file is eight bytes of header length, a JSON header naming each tensor's dtype, shape and place, and the bytes.
Reading maps the file; nothing is copied until a tensor is used. A header is believed only after every number in it was
checked against the size of the file, so a hostile one costs an error, not memory. Knows no model.

Own code instead of the ``safetensors`` package: the format is small, and the package would bring a second compiled
module that returns PyTorch's or NumPy's arrays, of which the latter have no bfloat16.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import oneflow
from oneflow import Tensor

__all__ = ["SafetensorsFile", "load_file", "save_file"]

# The reference implementation's limit.
MAX_HEADER = 100_000_000
MAX_DIMS = 32

_DTYPES = {
    "F64": oneflow.float64,
    "F32": oneflow.float32,
    "F16": oneflow.float16,
    "BF16": oneflow.bfloat16,
    "I64": oneflow.int64,
    "I32": oneflow.int32,
    "I16": oneflow.int16,
    "I8": oneflow.int8,
    "U8": oneflow.uint8,
    "BOOL": oneflow.bool,
    "C64": oneflow.complex64,
    "U16": oneflow.uint16,
    "U32": oneflow.uint32,
    "U64": oneflow.uint64,
    "F8_E4M3": oneflow.float8_e4m3fn,
    "F8_E5M2": oneflow.float8_e5m2,
    "F8_E4M3FNUZ": oneflow.float8_e4m3fnuz,
    "F8_E5M2FNUZ": oneflow.float8_e5m2fnuz,
    "F8_E8M0": oneflow.float8_e8m0fnu,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class Entry(NamedTuple):
    """The position of a tensor: ``start`` and ``end`` count bytes after the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


class SafetensorsFile(Mapping[str, Tensor]):
    """The tensors of a file by name, read on access. Writing to one does not change the file.

    Args:
        path: the file.

    Raises:
        ValueError: the file is not a safetensors file, or its header contradicts itself or the file's size.

    Example::

        >>> from oneflow.models.safetensors import SafetensorsFile, save_file
        >>> save_file({"w": oneflow.ones(2, 2)}, "w.safetensors")
        >>> SafetensorsFile("w.safetensors")["w"]
        tensor([[1., 1.],
                [1., 1.]])
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with open(self.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < 8:
                raise self._error(f"{size} bytes are too few for a header")
            length = int.from_bytes(file.read(8), "little")
            if length > min(MAX_HEADER, size - 8):
                raise self._error(f"a header of {length} bytes does not fit in a file of {size}")
            self.entries, self.metadata = self._parse(file.read(length), size - 8 - length)
            # Private pages: who writes to a tensor changes no file.
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self._begin = 8 + length

    def __getitem__(self, name: str) -> Tensor:
        entry = self.entries[name]
        dtype = _DTYPES[entry.dtype]
        count = math.prod(entry.shape)
        if count == 0:
            return oneflow.empty(entry.shape, dtype=dtype)
        offset = self._begin + entry.start
        if offset % dtype.itemsize:
            part = bytearray(self._map[offset : self._begin + entry.end])
            return oneflow.frombuffer(part, dtype=dtype).view(entry.shape)
        return oneflow.frombuffer(self._map, dtype=dtype, count=count, offset=offset).view(entry.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def _error(self, text: str) -> ValueError:
        return ValueError(f"{self.path} is not a valid safetensors file: {text}")

    def _parse(self, header: bytes, n_bytes: int) -> tuple[dict[str, Entry], dict[str, str]]:
        """Check the header against ``n_bytes`` of data: no gap, no overlap, nothing outside."""
        try:
            table = json.loads(header.decode("utf-8"), object_pairs_hook=self._unique)
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise self._error(f"the header is not JSON ({error})") from None
        if not isinstance(table, dict):
            raise self._error("the header is not an object")
        metadata = table.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
            raise self._error("__metadata__ does not map text to text")
        entries = {name: self._entry(name, value) for name, value in table.items()}
        end = 0
        for name, entry in sorted(entries.items(), key=lambda item: item[1][2:]):
            if entry.start != end:
                raise self._error(f"tensor {name!r} begins at byte {entry.start}, where {end} was expected")
            end = entry.end
        if end != n_bytes:
            raise self._error(f"the tensors take {end} bytes, the file holds {n_bytes}")
        return entries, metadata

    def _unique(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            raise self._error("a name occurs twice in the header")
        return table

    def _entry(self, name: str, value: Any) -> Entry:
        if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
            raise self._error(f"tensor {name!r} is not described by dtype, shape and data_offsets")
        dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
        if not isinstance(dtype, str) or dtype not in _DTYPES:
            raise self._error(f"tensor {name!r} has dtype {dtype!r}; known are {', '.join(_DTYPES)}")
        if not _are_sizes(shape) or len(shape) > MAX_DIMS:
            raise self._error(f"tensor {name!r} has a shape that is no list of sizes")
        if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
            raise self._error(f"tensor {name!r} has data_offsets that are no range")
        needed = math.prod(shape) * _DTYPES[dtype].itemsize
        if offsets[1] - offsets[0] != needed:
            raise self._error(
                f"tensor {name!r} of {dtype} and shape {tuple(shape)} takes {needed} bytes, "
                f"its place has {offsets[1] - offsets[0]}"
            )
        return Entry(dtype, tuple(shape), offsets[0], offsets[1])


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 2**63 for v in values)


def load_file(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Read all tensors of a safetensors file.

    Example::

        >>> from oneflow.models.safetensors import load_file, save_file
        >>> save_file({"w": oneflow.zeros(3)}, "w.safetensors")
        >>> load_file("w.safetensors")
        {'w': tensor([0., 0., 0.])}
    """
    return dict(SafetensorsFile(path))


def save_file(
    tensors: Mapping[str, Tensor], path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors to a safetensors file. The file appears whole or not at all.

    Args:
        tensors: what to write, of any device and strides. Each is written whole, also where two share memory.
        path: the file.
        metadata: texts to keep in the header.

    Raises:
        TypeError: a dtype that the format has no name for.
    """
    header, places = lay_out(tensors, metadata)
    scratch = Path(f"{os.fspath(path)}.tmp")
    try:
        with open(scratch, "wb") as file:
            file.write(header)
            for name in places:
                file.write(_bytes_of(tensors[name]))
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def lay_out(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """What a file of these tensors begins with, and from which byte of the file to which each tensor is, in order.

    Each begins at a multiple of its element's size.

    Raises:
        TypeError: a dtype that the format has no name for.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    # Wide elements first: then all of them are aligned.
    for name in sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name)):
        tensor = tensors[name]
        if tensor.dtype not in _NAMES:
            raise TypeError(f"safetensors has no name for {tensor.dtype} (tensor {name!r})")
        size = tensor.numel() * tensor.dtype.itemsize
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    begin = 8 + len(text)
    places = {name: entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"}
    return len(text).to_bytes(8, "little") + text, {name: (begin + i, begin + j) for name, (i, j) in places.items()}


def _bytes_of(tensor: Tensor) -> Any:
    flat = tensor.detach().cpu().contiguous().view(-1)
    return memoryview(flat.view(oneflow.uint8).numpy()) if flat.numel() else b""
