"""Readers of files in Rust: tokens, records of one size, OFRecords. A graph reads them without Python (`Graph.over`).

The order is a function of seed and position, so a checkpoint is one number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow

_Output = tuple[tuple[int, ...], Any]


class Reader:
    """An iterable of batches that a native reader produces: tuples of tensors, or one tensor.

    Args:
        source: the native reader.
        outputs: shape and dtype of each tensor of a batch.
        batches: the number of batches of an iteration. The next one continues where it ended.
        position: batches read before, by iterations or by a graph: part of a checkpoint.

    Example::

        >>> import pathlib
        >>> from oneflow.utils.data.readers import RawReader, Reader
        >>> _ = pathlib.Path("records").write_bytes(bytes(range(8)))
        >>> reader = RawReader("records", (2,), oneflow.uint8, 2, batches=3)
        >>> isinstance(reader, Reader), len(reader), reader.empty()[0].shape
        (True, 3, oneflow.Size([2, 2]))
        >>> len(list(reader)), reader.position
        (3, 3)
    """

    def __init__(self, source: Any, outputs: Sequence[_Output], batches: int, position: int = 0) -> None:
        self.source = source
        self.outputs = list(outputs)
        self.batches = batches
        self.position = position

    def __len__(self) -> int:
        return self.batches

    def empty(self) -> list[Tensor]:
        """Tensors of a batch's shapes and dtypes."""
        return [oneflow.empty(shape, dtype=dtype) for shape, dtype in self.outputs]

    def __iter__(self) -> Iterator[Any]:
        source = self.source.at(self.position)
        for _ in range(self.batches):
            tensors = self.empty()
            source.fill(tensors)
            self.position += 1
            yield tensors[0] if len(tensors) == 1 else tuple(tensors)


def _name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


class TokenReader(Reader):
    """Windows of a file of tokens: int64 (batch_size, length + 1), neighbours overlapping by one token.

    Args:
        path: a file of uint8, uint16 or uint32 tokens, little-endian.
        dtype: their type, by name.
        batch_size: windows a batch.
        length: tokens of the context; a window has one more.
        batches: the number of batches of an iteration.
        seed: of the order of windows; every epoch has another one.
        position: batches read before.

    Raises:
        RuntimeError: the file cannot be read.
        ValueError: it is too short.

    Example::

        >>> import pathlib
        >>> from oneflow.utils.data.readers import TokenReader
        >>> _ = pathlib.Path("tokens").write_bytes(bytes(range(100)))
        >>> for window in TokenReader("tokens", "uint8", batch_size=4, length=7, batches=2):
        ...     print(window.shape, bool((window.diff() == 1).all()))
        oneflow.Size([4, 8]) True
        oneflow.Size([4, 8]) True
    """

    def __init__(
        self, path: Any, dtype: str, batch_size: int, length: int, *, batches: int, seed: int = 0, position: int = 0
    ) -> None:
        source = _oneflow._DataSource.tokens(str(path), dtype, batch_size, length + 1, seed, position)
        super().__init__(source, [((batch_size, length + 1), oneflow.int64)], batches, position)


class IndexedTokenReader(Reader):
    """The same of Megatron's ``prefix.bin`` and ``prefix.idx``.

    Args:
        prefix: the files' common name.
        batch_size: windows a batch.
        length: tokens of the context; a window has one more.
        batches: the number of batches of an iteration.
        shuffle: whether windows come in an order that depends on the seed and the epoch.
        seed: of that order.
        position: batches read before.

    Example::

        >>> import pathlib, struct
        >>> from oneflow.utils.data.readers import IndexedTokenReader
        >>> _ = pathlib.Path("text.bin").write_bytes(struct.pack("<12i", *range(12)))  # One document, int32.
        >>> index = b"MMIDIDX\\0\\0" + struct.pack("<QBQQ", 1, 4, 1, 2) + struct.pack("<iqqq", 12, 0, 0, 1)
        >>> _ = pathlib.Path("text.idx").write_bytes(index)
        >>> list(IndexedTokenReader("text", 2, 5, batches=1, shuffle=False))
        [tensor([[ 0,  1,  2,  3,  4,  5],
                [ 5,  6,  7,  8,  9, 10]])]
    """

    def __init__(
        self,
        prefix: Any,
        batch_size: int,
        length: int,
        *,
        batches: int,
        shuffle: bool = True,
        seed: int = 0,
        position: int = 0,
    ) -> None:
        source = _oneflow._DataSource.indexed(str(prefix), batch_size, length + 1, shuffle, seed, position)
        super().__init__(source, [((batch_size, length + 1), oneflow.int64)], batches, position)


class RawReader(Reader):
    """Records of one shape and dtype in a file.

    Args:
        path: the file.
        shape: of one record.
        dtype: of its elements, which are stored in the file as in memory.
        batch_size: records a batch.
        batches: the number of batches of an iteration.
        header: bytes before the first record.
        shuffle: whether records come in an order that depends on the seed and the epoch.
        seed: of that order.
        position: batches read before.

    Example::

        >>> import pathlib
        >>> from oneflow.utils.data.readers import RawReader
        >>> _ = pathlib.Path("records").write_bytes(bytes(range(8)))
        >>> list(RawReader("records", (2,), oneflow.uint8, 2, batches=1))
        [tensor([[0, 1],
                [2, 3]], dtype=oneflow.uint8)]
    """

    def __init__(
        self,
        path: Any,
        shape: Sequence[int],
        dtype: Any,
        batch_size: int,
        *,
        batches: int,
        header: int = 0,
        shuffle: bool = False,
        seed: int = 0,
        position: int = 0,
    ) -> None:
        size = math.prod(shape) * oneflow.empty((), dtype=dtype).element_size()
        source = _oneflow._DataSource.raw(str(path), header, size, batch_size, shuffle, seed, position)
        super().__init__(source, [((batch_size, *shape), dtype)], batches, position)


class OFRecordReader(Reader):
    """Features of OFRecord files, one tensor for each decoder.

    Args:
        files: the files.
        decoders: for each feature its name, the shape of one record's part, and a dtype (uint8, int32, int64, float32,
            float64) or ``"bytes"`` for bytes as they are.
        batch_size: records a batch.
        batches: the number of batches of an iteration.
        pad: fill up with zeros, and cut off, what has another length; without it that is an error.
        shuffle: whether records come in an order that depends on the seed and the epoch.
        seed: of that order.
        position: batches read before.

    Raises:
        ValueError: a file is damaged, or a record lacks a feature.

    Example::

        >>> import pathlib, struct
        >>> from oneflow.utils.data.readers import OFRecordReader
        >>> def field(number, data):  # Of a protocol buffer.
        ...     return bytes([number << 3 | 2, len(data)]) + data
        >>> label = field(1, field(1, b"label") + field(2, field(5, field(1, bytes([7])))))
        >>> _ = pathlib.Path("part-0").write_bytes(struct.pack("<q", len(label)) + label)
        >>> list(OFRecordReader(["part-0"], [("label", (), oneflow.int32)], 1, batches=2))
        [tensor([7], dtype=oneflow.int32), tensor([7], dtype=oneflow.int32)]
    """

    def __init__(
        self,
        files: Sequence[Any],
        decoders: Sequence[tuple[str, Sequence[int], Any]],
        batch_size: int,
        *,
        batches: int,
        pad: bool = False,
        shuffle: bool = False,
        seed: int = 0,
        position: int = 0,
    ) -> None:
        native = [
            (name, "bytes" if how == "bytes" else _name(how), math.prod(shape), pad) for name, shape, how in decoders
        ]
        outputs = [((batch_size, *shape), oneflow.uint8 if how == "bytes" else how) for _, shape, how in decoders]
        source = _oneflow._DataSource.records([str(f) for f in files], native, batch_size, shuffle, seed, position)
        super().__init__(source, outputs, batches, position)
