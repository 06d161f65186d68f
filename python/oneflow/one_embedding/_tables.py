"""Readers and writers of whole tables: rows of a snapshot in batches, and stores made of given rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import numpy as np

import oneflow
from oneflow._oneflow import _EmbeddingSaved, _EmbeddingStore
from oneflow.one_embedding._exchange import owned
from oneflow.one_embedding._options import Options, make_normal_initializer, make_table_options, table_numbers

# Rows of a batch.
BATCH = 1 << 16
_KEYS = {"int32": np.int32, "int64": np.int64, "uint32": np.uint32, "uint64": np.uint64}
_VALUES = {"float32": np.float32, "float16": np.float16}
Path = str | os.PathLike[str]


def _types(function: str, key_type: Any, value_type: Any) -> tuple[Any, Any]:
    key, value = (str(t).rpartition(".")[2] for t in (key_type, value_type))
    if key not in _KEYS or value not in _VALUES:
        raise TypeError(
            f"{function}: keys are of {', '.join(_KEYS)} and values of {', '.join(_VALUES)}, got {key} and {value}"
        )
    return _KEYS[key], _VALUES[value]


class PersistentTableReader:
    """The rows of a snapshot, in batches; see :func:`make_persistent_table_reader`.

    Example::

        >>> callable(oneflow.one_embedding.make_persistent_table_reader)
        True
    """

    def __init__(self, saved: list[_EmbeddingSaved], key_type: Any, value_type: Any) -> None:
        self._saved, self._types = saved, (key_type, value_type)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Keys (rows) and values (rows, storage_dim) of each batch."""
        return ((keys, values) for _, keys, values in self.records())

    def records(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Tables, keys and values of each batch."""
        key_type, value_type = self._types
        for saved in self._saved:
            for first in range(0, len(saved), BATCH):
                tables, ids, _, _, values = saved.records(first, first + BATCH)
                yield tables.numpy(), ids.numpy().astype(key_type), values.numpy().astype(value_type)

    def close(self) -> None:
        """Let the files go. Later batches are empty."""
        self._saved = []

    def __enter__(self) -> PersistentTableReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, where: TracebackType | None) -> None:
        self.close()


class PersistentTableWriter:
    """Makes stores of given rows; see :func:`make_persistent_table_writer`.

    Example::

        >>> callable(oneflow.one_embedding.make_persistent_table_writer)
        True
    """

    def __init__(self, stores: list[_EmbeddingStore], snapshot_name: str, key_type: Any, width: int) -> None:
        self._stores, self._name, self._key_type, self._width = stores, snapshot_name, key_type, width

    def write(self, keys: np.ndarray, values: np.ndarray, table_ids: np.ndarray | None = None) -> None:
        """Add rows; those of a key that is there are replaced.

        Args:
            keys: (rows), of the key type.
            values: (rows, storage_dim): weights and state.
            table_ids: (rows); all are of the first table without.

        Raises:
            TypeError: keys are of another type.
            ValueError: shapes do not fit, or the writer is closed.
        """
        if not self._stores:
            raise ValueError("PersistentTableWriter.write: the writer is closed")
        if keys.dtype != self._key_type:
            raise TypeError(f"PersistentTableWriter.write: keys must be {self._key_type.__name__}, got {keys.dtype}")
        if values.shape != (len(keys), self._width):
            raise ValueError(
                f"PersistentTableWriter.write: expected values ({len(keys)}, {self._width}), got {values.shape}"
            )
        ids = oneflow.from_numpy(np.ascontiguousarray(keys.astype(np.uint64).view(np.int64)))
        if keys.dtype == np.int32:
            ids = oneflow.from_numpy(keys.astype(np.int64))
        tables = oneflow.zeros_like(ids) if table_ids is None else oneflow.from_numpy(table_ids.astype(np.int64))
        if len(tables) != len(ids):
            raise ValueError(f"PersistentTableWriter.write: {len(tables)} table_ids for {len(ids)} keys")
        # The last of equal keys counts.
        _, last = np.unique(np.stack([tables.numpy(), ids.numpy()])[:, ::-1], axis=1, return_index=True)
        chosen = oneflow.from_numpy(np.sort(len(ids) - 1 - last))
        tables, ids = tables[chosen], ids[chosen]
        rows = oneflow.from_numpy(np.ascontiguousarray(values, dtype=np.float32))[chosen]
        ones = oneflow.ones_like(ids)
        n_tables = int(self._stores[0].config()["n_tables"])
        for rank, store in enumerate(self._stores):
            mine = owned(tables, ids, len(self._stores), rank, n_tables)
            store.put(*[part[mine].contiguous() for part in (tables, ids, ones, ones, rows)])

    def close(self) -> None:
        """Save the snapshot and let the folders go."""
        stores, self._stores = self._stores, []
        for store in stores:
            store.save_snapshot(self._name)
            store.close()

    def __enter__(self) -> PersistentTableWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, where: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            for store in self._stores:
                store.close()
            self._stores = []


def make_persistent_table_reader(
    paths: Sequence[Path],
    snapshot_name: str,
    key_type: Any,
    value_type: Any,
    storage_dim: int,
    physical_block_size: int = 4096,
) -> PersistentTableReader:
    """Read the rows of a snapshot, of all ranks one after the other. It may be read while its store trains.

    Args:
        paths: the folder of each rank, ``PATH/RANK-RANKS``.
        snapshot_name: of the snapshot.
        key_type: int32, int64, uint32 or uint64.
        value_type: float32 or float16.
        storage_dim: numbers of a row: weights and optimizer state.
        physical_block_size: 512 or 4096; changes nothing.

    Returns:
        An iterable of (keys, values), as arrays of NumPy; also a context manager.

    Raises:
        ValueError: there is no such snapshot, or its rows have another size.
        RuntimeError: a file is damaged.

    Example::

        >>> import tempfile
        >>> import numpy as np
        >>> from oneflow import one_embedding
        >>> folder = tempfile.mkdtemp()
        >>> given = [folder], "rows", oneflow.int64, oneflow.float32, 2
        >>> with one_embedding.make_persistent_table_writer(*given) as writer:
        ...     writer.write(np.array([7, 9]), np.array([[1, 2], [3, 4]], dtype=np.float32))
        >>> for keys, values in one_embedding.make_persistent_table_reader(*given):
        ...     print(keys.tolist(), values.tolist())
        [7, 9] [[1.0, 2.0], [3.0, 4.0]]
    """
    key, value = _types("make_persistent_table_reader", key_type, value_type)
    saved = [_EmbeddingSaved(os.fspath(path), snapshot_name) for path in paths]
    for path, part in zip(paths, saved, strict=True):
        config = part.config()
        width = sum(config["column_dims"]) + config["state_width"]
        if width != storage_dim:
            raise ValueError(f"make_persistent_table_reader: {path} has rows of {width} numbers, not {storage_dim}")
    return PersistentTableReader(saved, key, value)


def make_persistent_table_writer(
    paths: Sequence[Path],
    snapshot_name: str,
    key_type: Any,
    value_type: Any,
    storage_dim: int,
    physical_block_size: int = 4096,
    *,
    embedding_dim: int | Sequence[int] | None = None,
    tables: Sequence[Options] | None = None,
    seed: int = 0,
) -> PersistentTableWriter:
    """Make stores of given rows, and a snapshot of them. An embedding with the same options opens them.

    Args:
        paths: the folder of each rank, ``PATH/RANK-RANKS``; a row goes to the one that owns its key.
        snapshot_name, key_type, value_type, storage_dim, physical_block_size: as :func:`make_persistent_table_reader`.
        embedding_dim: weights of a row, or sizes of its columns; ``storage_dim`` if None.
        tables: options of the tables; one with a normal initializer of deviation 0.05 if None.
        seed: of the embedding.

    Returns:
        A writer, which is a context manager; it saves the snapshot when it is closed, unless an error ended the block.

    Raises:
        ValueError: sizes do not fit.
        RuntimeError: a folder is in use, or not writable.

    Example::

        >>> import tempfile
        >>> import numpy as np
        >>> from oneflow import one_embedding
        >>> writer = one_embedding.make_persistent_table_writer(
        ...     [tempfile.mkdtemp()], "rows", oneflow.int64, oneflow.float32, 2
        ... )
        >>> writer.write(np.array([7]), np.ones((1, 2), dtype=np.float32))
        >>> writer.close()
    """
    key, _ = _types("make_persistent_table_writer", key_type, value_type)
    dims = [storage_dim] if embedding_dim is None else embedding_dim
    dims = [dims] if isinstance(dims, int) else list(dims)
    if sum(dims) > storage_dim or not paths:
        raise ValueError(
            f"make_persistent_table_writer: {len(paths)} folders for rows of {storage_dim} numbers, {sum(dims)} of "
            "them weights"
        )
    if tables is None:
        tables = [make_table_options(make_normal_initializer(0.0, 0.05))]
    numbers = [table_numbers(table, len(dims)) for table in tables]
    rest, bits = storage_dim - sum(dims), seed & (2**64 - 1)
    stores = [_EmbeddingStore(os.fspath(path), dims, rest, numbers, bits, 1 << 26, []) for path in paths]
    return PersistentTableWriter(stores, snapshot_name, key, storage_dim)
