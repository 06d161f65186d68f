"""The modules: lookups into a store, whose gradients wait for the optimizer's step."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._oneflow import _EmbeddingBatch, _EmbeddingStore, _is_tracing
from oneflow.autograd.function import Function, once_differentiable
from oneflow.nn.modules.module import Module
from oneflow.nn.parameter import Parameter
from oneflow.one_embedding._options import (
    Options,
    folder,
    make_normal_initializer,
    make_table_options,
    memory_budget,
    table_numbers,
)

KEY_TYPES = (oneflow.int32, oneflow.int64, oneflow.uint64)


class _Lookup(Function):
    """Look up the weights of a batch. The module keeps the gradient for the optimizer."""

    @staticmethod
    def forward(ctx: Any, shadow: Tensor, module: Embedding, batch: _EmbeddingBatch, sizes: list[int]) -> Tensor:
        ctx.module, ctx.batch = weakref.ref(module), batch
        ctx.shadow_sizes, ctx.shadow_dtype = shadow.shape, shadow.dtype
        return module._store.lookup(batch, sizes, True)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        module = ctx.module()
        if module is not None:
            module._pending.append((ctx.batch, grad.detach().to(oneflow.float32).contiguous()))
        # So that the optimizer counts this step for the parameter that represents the rows.
        return oneflow.zeros(ctx.shadow_sizes, dtype=ctx.shadow_dtype, device=grad.device), None, None, None


def _commit_and_close(store: _EmbeddingStore) -> None:
    try:
        store.commit()
    finally:
        store.close()


def _finalize(store: _EmbeddingStore, path: str, process: int) -> None:
    """Commit the rows when a module is deleted or the program ends. An error becomes a warning: nobody could catch it.

    A folder that the program has removed, as temporary ones are, has no rows to keep.
    """
    if os.getpid() != process:
        return
    try:
        _commit_and_close(store)
    except Exception as error:
        if os.path.isdir(path):
            warnings.warn(f"the rows of an embedding in {path} were not committed: {error}", stacklevel=2)


class Embedding(Module):
    """The base of the modules; see :class:`MultiTableEmbedding`.

    Example::

        >>> issubclass(oneflow.one_embedding.MultiTableEmbedding, oneflow.one_embedding.Embedding)
        True
    """

    def __init__(
        self,
        name: str,
        embedding_dim: int | Sequence[int],
        dtype: oneflow.dtype,
        key_type: oneflow.dtype,
        tables: Sequence[Options] | None,
        store_options: Options,
        default_initializer: Options | None = None,
        padding_idx: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        column_dims = self._column_dims(embedding_dim)
        if dtype is not oneflow.float32:
            raise NotImplementedError(f"{type(self).__name__}: rows are of float32, got dtype={dtype}")
        if key_type not in KEY_TYPES:
            raise TypeError(f"{type(self).__name__}: key_type must be int32, int64 or uint64, got {key_type}")
        rank, n_ranks = oneflow.env.get_rank(), oneflow.env.get_world_size()
        if n_ranks > 1:
            raise NotImplementedError(
                f"{type(self).__name__}: rows are not shared between ranks, and there are {n_ranks}"
            )

        self.dtype, self.key_type = dtype, key_type
        self.embedding_name, self.seed, self.padding_idx = name, seed, padding_idx
        self.embedding_dim = sum(column_dims)
        storage_dim = store_options["storage_dim"]
        self.storage_dim = storage_dim if storage_dim != -1 else store_options["size_factor"] * self.embedding_dim
        if self.storage_dim < self.embedding_dim:
            raise ValueError(
                f"{type(self).__name__}: storage_dim {self.storage_dim} has no room for {self.embedding_dim} weights"
            )
        if tables is None:
            tables = [make_table_options(default_initializer or make_normal_initializer(0.0, 0.05))]
        numbers = [table_numbers(table, len(column_dims)) for table in tables]
        self.num_tables = len(numbers)

        kv_store = store_options["kv_store"]
        path = folder(kv_store["persistent_table"]["path"], rank, n_ranks)
        self._store = _EmbeddingStore(
            path,
            column_dims,
            self.storage_dim - self.embedding_dim,
            numbers,
            seed & (2**64 - 1),
            memory_budget(kv_store["caches"], self.storage_dim),
        )
        self._finalizer = weakref.finalize(self, _finalize, self._store, path, os.getpid())
        # Batches and gradients of lookups since the optimizer's last step.
        self._pending: list[tuple[_EmbeddingBatch, Tensor]] = []
        self._has_optimizer = False
        # Stands for the rows in an optimizer: its group's options are theirs.
        self.shadow = Parameter(oneflow.zeros(1))

    def _column_dims(self, embedding_dim: Any) -> list[int]:
        column_dims = [embedding_dim] if isinstance(embedding_dim, int) else list(embedding_dim)
        if not all(isinstance(dim, int) and dim > 0 for dim in column_dims) or not column_dims:
            raise ValueError(f"{type(self).__name__}: embedding_dim must be positive, got {embedding_dim}")
        return column_dims

    def extra_repr(self) -> str:
        return f"{self.embedding_name!r}, dim={self.embedding_dim}, tables={self.num_tables}"

    def _batch(self, ids: Tensor, table_ids: Tensor | None) -> _EmbeddingBatch:
        name = type(self).__name__
        if ids.dtype is not self.key_type:
            raise TypeError(f"{name}: ids must be of the key_type {self.key_type}, got {ids.dtype}")
        if table_ids is not None:
            if table_ids.shape != ids.shape:
                raise ValueError(
                    f"{name}: table_ids must have the shape of ids, got {tuple(table_ids.shape)} and {tuple(ids.shape)}"
                )
            table_ids = table_ids.to(oneflow.int64).contiguous()
        elif self.num_tables > 1 and (ids.dim() == 0 or ids.shape[-1] != self.num_tables):
            raise ValueError(
                f"{name}: without table_ids the last dimension of ids counts the {self.num_tables} tables, "
                f"got shape {tuple(ids.shape)}"
            )
        padding = None if self.padding_idx is None else self.padding_idx & (2**64 - 1)
        return _EmbeddingBatch(ids.contiguous(), table_ids, self.num_tables, padding)

    def forward(self, ids: Tensor, table_ids: Tensor | None = None) -> Tensor:
        """Look weights up.

        Args:
            ids: of ``key_type`` and any shape.
            table_ids: the table of each id, in the shape of ``ids``. Without it, all ids are of the one table, or the
                last dimension of ``ids`` counts the tables.

        Returns:
            float32 of shape ``(*ids.shape, embedding_dim)``; zeros where an id is ``padding_idx``.

        Raises:
            TypeError: ids are not of ``key_type``.
            ValueError: shapes do not fit, or gradients wait and no :class:`Optimizer` takes them.
            IndexError: there is no such table.
        """
        if _is_tracing():
            raise NotImplementedError(f"{type(self).__name__}: lookups cannot be traced: call it outside of the graph")
        batch = self._batch(ids, table_ids)
        sizes = [*ids.shape, self.embedding_dim]
        if not (oneflow.is_grad_enabled() and self.shadow.requires_grad):
            return self._store.lookup(batch, sizes, False)
        if self._pending and not self._has_optimizer:
            raise ValueError(
                f"{type(self).__name__}: gradients of rows wait, and no optimizer takes them: wrap the optimizer in "
                "oneflow.one_embedding.Optimizer"
            )
        return _Lookup.apply(self.shadow, self, batch, sizes)

    # ---- rows that last

    def commit(self) -> int:
        """Make the rows as they are now last, and return the number of this epoch.

        A store that is opened again is as its last epoch was, also after a crash. ``save_snapshot`` commits, and so
        does the end of the program.
        """
        return self._store.commit()

    def save_snapshot(self, snapshot_name: str) -> None:
        """Commit, and keep the rows as they are now under a name. No row is copied."""
        self._store.save_snapshot(snapshot_name)

    def load_snapshot(self, snapshot_name: str) -> None:
        """Take the rows of a snapshot. Gradients that wait are dropped.

        Raises:
            ValueError: there is no such snapshot.
            RuntimeError: one of its files is damaged.
        """
        self._store.load_snapshot(snapshot_name)
        self._pending.clear()

    def snapshots(self) -> list[str]:
        """Names of the snapshots."""
        return self._store.snapshots()

    def remove_snapshot(self, snapshot_name: str) -> None:
        """Forget a snapshot; what only it needs leaves the disk."""
        self._store.remove_snapshot(snapshot_name)

    def close(self) -> None:
        """Commit and release the folder. Later lookups raise.

        Raises:
            RuntimeError: the rows cannot be written.
        """
        if self._finalizer.detach() is not None:
            _commit_and_close(self._store)

    # ---- what is in it

    def keys(self) -> tuple[Tensor, Tensor]:
        """Tables and ids of all rows that were trained, in order, as int64; uint64 ids by their bits."""
        return self._store.keys()

    def remove(self, ids: Tensor, table_ids: Tensor | None = None) -> int:
        """Remove rows: their ids have their initial weights again. Returns how many there were."""
        return self._store.remove(self._batch(ids, table_ids))

    def verify(self) -> int:
        """Read every record that is in use and check its checksum; return how many there are.

        Raises:
            RuntimeError: one is damaged; it is named.
        """
        return self._store.verify()

    def statistics(self) -> dict[str, int]:
        """Rows, bytes in memory and on disk, and what lookups found."""
        return self._store.stats()

    def _drop_grads(self) -> None:
        self._pending.clear()


class MultiTableEmbedding(Embedding):
    """Tables of embeddings of one size, with any number of rows: any id has a row, created when it is first trained.

    Until then an id's weights are a function of seed, table, id and column. A store has one writer; its folder opens
    with the options that it was created with.

    Args:
        name: of the embedding.
        embedding_dim: weights a row.
        dtype: of the weights: float32.
        key_type: of the ids: int32, int64 or uint64.
        tables: options of each table, by :func:`make_table_options`; None is one table with ``default_initializer``.
        store_options: by :func:`make_cached_ssd_store_options`, :func:`make_cached_host_mem_store_options` or
            :func:`make_device_mem_store_options`.
        default_initializer: of a table that has no options; normal with a deviation of 0.05 if None.
        padding_idx: an id whose weights are zeros and stay so.
        seed: of the initial weights.

    Raises:
        NotImplementedError: there are several ranks, or another dtype.
        RuntimeError: the folder is in use or not writable, or a file in it is damaged.
        ValueError: the store in the folder has other options.

    Example::

        >>> import tempfile
        >>> from oneflow import one_embedding
        >>> folder = tempfile.mkdtemp()
        >>> table = one_embedding.make_table(one_embedding.make_constant_initializer(1))
        >>> embedding = one_embedding.MultiTableEmbedding(
        ...     "users_and_items", 4, oneflow.float32, oneflow.int64, tables=[table, table],
        ...     store_options=one_embedding.make_cached_ssd_store_options(16, folder),
        ... )
        >>> sgd = oneflow.optim.SGD(embedding.parameters(), lr=0.5)
        >>> optimizer = one_embedding.Optimizer(sgd, [embedding])
        >>> embedding(oneflow.tensor([[7, 123456789012]])).sum().backward()
        >>> optimizer.step()
        >>> embedding(oneflow.tensor([[7, 7]]))[0, :, 0].detach()
        tensor([0.5000, 1.0000])
    """

    def _column_dims(self, embedding_dim: Any) -> list[int]:
        if not isinstance(embedding_dim, int):
            raise TypeError(
                f"MultiTableEmbedding: embedding_dim must be an int, got {type(embedding_dim).__name__}; "
                "columns of several sizes are MultiTableMultiColumnEmbedding's"
            )
        return super()._column_dims(embedding_dim)


class MultiTableMultiColumnEmbedding(Embedding):
    """As :class:`MultiTableEmbedding`, with rows of several columns that have their own initializers.

    Args:
        embedding_dim: sizes of the columns; lookups concatenate them.
        name, dtype, key_type, tables, store_options, default_initializer, padding_idx, seed: as
            :class:`MultiTableEmbedding`.

    Example::

        >>> import tempfile
        >>> from oneflow import one_embedding
        >>> folder = tempfile.mkdtemp()
        >>> columns = [
        ...     one_embedding.make_column_options(one_embedding.make_normal_initializer(std=0.01)),
        ...     one_embedding.make_column_options(one_embedding.make_constant_initializer(0)),
        ... ]
        >>> embedding = one_embedding.MultiTableMultiColumnEmbedding(
        ...     "wide_and_deep", [10, 1], oneflow.float32, oneflow.int64,
        ...     tables=[one_embedding.make_table(columns)],
        ...     store_options=one_embedding.make_cached_ssd_store_options(16, folder),
        ... )
        >>> embedding(oneflow.tensor([1, 2, 3])).shape
        oneflow.Size([3, 11])
    """
