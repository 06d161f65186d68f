"""The modules: lookups into a store, whose gradients wait for the optimizer's step."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._oneflow import _EmbeddingBags, _EmbeddingBatch, _EmbeddingSaved, _EmbeddingStore, _is_tracing
from oneflow._trace import lookups
from oneflow.autograd.function import Function, once_differentiable
from oneflow.nn.modules.module import Module
from oneflow.nn.parameter import Parameter
from oneflow.one_embedding._ahead import Ahead, Prepared, prepared
from oneflow.one_embedding._exchange import PAYLOADS, owned
from oneflow.one_embedding._options import (
    Options,
    admission_numbers,
    direct_block,
    folder,
    folders_of_other_worlds,
    make_normal_initializer,
    make_table_options,
    memory_budget,
    table_numbers,
)
from oneflow.one_embedding._replicas import Replicas, hottest
from oneflow.profiler import record_function

KEY_TYPES = (oneflow.int32, oneflow.int64, oneflow.uint64)


# float32 rows are also looked up as these.
VALUE_TYPES = (oneflow.float32, oneflow.float16, oneflow.bfloat16)
# What a backward leaves for the optimizer's step: keys, gradients of positions or of bags, and the bags.
Pending = tuple[_EmbeddingBatch, Tensor, _EmbeddingBags | None]
# The embeddings that are alive, by name: the newest of each.
NAMED: weakref.WeakValueDictionary[str, Embedding] = weakref.WeakValueDictionary()
# Rows that are read or written at once where all rows of a store are.
AT_ONCE = 1 << 16


class _Lookup(Function):
    """Look up the weights of a batch, or sums of bags. The module keeps the gradient for the optimizer."""

    @staticmethod
    def forward(ctx: Any, shadow: Tensor, module: Embedding, of: Prepared) -> Tensor:
        ctx.module, ctx.of = weakref.ref(module), of
        ctx.shadow_sizes, ctx.shadow_dtype = shadow.shape, shadow.dtype
        rows = module._rows(of, True)
        return rows if module.dtype is oneflow.float32 else rows.to(module.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        module = ctx.module()
        if module is not None:
            module._keep_gradient(ctx.of, grad)
        # So that the optimizer counts this step for the parameter that represents the rows.
        return oneflow.zeros(ctx.shadow_sizes, dtype=ctx.shadow_dtype, device=grad.device), None, None


def _without_repeats(grad: Tensor) -> tuple[Tensor, int]:
    """The rows of a gradient without their repetitions, and how many positions that follow each other share each.

    The gradient of a sum over positions is expanded: equal rows are the same memory, and copying them would cost as
    much as looking them up.
    """
    size = 1
    while grad.dim() > 1 and grad.numel() > 0 and grad.stride(-2) == 0:
        size *= grad.shape[-2]
        grad = grad.select(-2, 0)
    # A tensor of its own: the optimizer clips and unscales it in place.
    return (grad, 1) if size == 1 else (grad.clone(), size)


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
        *,
        payload: str = "float32",
        average_gradients: bool = True,
        staleness: int = 0,
    ) -> None:
        super().__init__()
        if not isinstance(staleness, int) or staleness < 0:
            raise ValueError(f"{type(self).__name__}: staleness must not be negative, got {staleness!r}")
        column_dims = self._column_dims(embedding_dim)
        if dtype not in VALUE_TYPES:
            raise NotImplementedError(
                f"{type(self).__name__}: weights are float32, float16 or bfloat16, got dtype={dtype}"
            )
        if key_type not in KEY_TYPES:
            raise TypeError(f"{type(self).__name__}: key_type must be int32, int64 or uint64, got {key_type}")
        if payload not in PAYLOADS:
            raise ValueError(f"{type(self).__name__}: payload is one of {', '.join(PAYLOADS)}, got {payload!r}")
        rank, n_ranks = oneflow.env.get_rank(), oneflow.env.get_world_size()
        self.rank, self.n_ranks, self.payload = rank, n_ranks, payload
        # Gradients of all ranks are added in the owner; a mean is what dense data parallelism makes of them.
        self._grad_scale = 1.0 / n_ranks if average_gradients else 1.0

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
        self._persistent_path = kv_store["persistent_table"]["path"]
        path = folder(self._persistent_path, rank, n_ranks)
        self._path = path
        self._store = _EmbeddingStore(
            path,
            column_dims,
            self.storage_dim - self.embedding_dim,
            numbers,
            seed & (2**64 - 1),
            memory_budget(kv_store["caches"], self.storage_dim, n_ranks),
            [admission_numbers(table.get("admission")) for table in tables],
            direct_block(kv_store["persistent_table"]),
            kv_store["persistent_table"].get("pages"),
            kv_store["persistent_table"].get("bounds_disk", False),
        )
        self.staleness = staleness
        self._ahead = Ahead(n_ranks)
        self._replicas: Replicas | None = None
        self._finalizer = weakref.finalize(self, _finalize, self._store, path, os.getpid())
        # Of lookups since the optimizer's last step.
        self._pending: list[Pending] = []
        self._step = 0
        self._has_optimizer = False
        NAMED[name] = self
        # Stands for the rows in an optimizer: its group's options are theirs.
        self.shadow = Parameter(oneflow.zeros(1))

    def _column_dims(self, embedding_dim: Any) -> list[int]:
        column_dims = [embedding_dim] if isinstance(embedding_dim, int) else list(embedding_dim)
        if not all(isinstance(dim, int) and dim > 0 for dim in column_dims) or not column_dims:
            raise ValueError(f"{type(self).__name__}: embedding_dim must be positive, got {embedding_dim}")
        return column_dims

    def extra_repr(self) -> str:
        return f"{self.embedding_name!r}, dim={self.embedding_dim}, tables={self.num_tables}"

    def _check(self, ids: Tensor, table_ids: Tensor | None) -> None:
        name = type(self).__name__
        if ids.is_global or (table_ids is not None and table_ids.is_global):
            raise NotImplementedError(
                f"{name}: only calls of MultiTableEmbedding and MultiTableMultiColumnEmbedding outside of graphs take "
                "global ids: call .to_local() first"
            )
        if ids.dtype is not self.key_type:
            raise TypeError(f"{name}: ids must be of the key_type {self.key_type}, got {ids.dtype}")
        if table_ids is not None:
            if table_ids.shape != ids.shape:
                raise ValueError(
                    f"{name}: table_ids must have the shape of ids, got {tuple(table_ids.shape)} and {tuple(ids.shape)}"
                )
        elif self.num_tables > 1 and (ids.dim() == 0 or ids.shape[-1] != self.num_tables):
            raise ValueError(
                f"{name}: without table_ids the last dimension of ids counts the {self.num_tables} tables, "
                f"got shape {tuple(ids.shape)}"
            )

    def _batch(self, ids: Tensor, table_ids: Tensor | None) -> _EmbeddingBatch:
        self._check(ids, table_ids)
        if table_ids is not None:
            table_ids = table_ids.to(oneflow.int64).contiguous()
        padding = None if self.padding_idx is None else self.padding_idx & (2**64 - 1)
        return _EmbeddingBatch(ids.contiguous(), table_ids, self.num_tables, padding)

    def forward(self, ids: Tensor, table_ids: Tensor | None = None) -> Tensor:
        """Look weights up.

        Args:
            ids: of ``key_type`` and any shape.
            table_ids: the table of each id, in the shape of ``ids``. Without it, all ids are of the one table, or the
                last dimension of ``ids`` counts the tables.

        Returns:
            Of the module's dtype and shape ``(*ids.shape, embedding_dim)``; zeros where an id is ``padding_idx``.

        With several ranks all of them call this, each with ids of its own, and as many times. Ids, and ``table_ids``,
        may also be global tensors of all ranks, split or broadcast: the result is a global tensor of the same ``sbp``,
        and rows are updated by the gradient of the whole, whatever ``average_gradients`` says.

        Raises:
            TypeError: ids are not of ``key_type``.
            ValueError: shapes do not fit, or gradients wait and no :class:`Optimizer` takes them; global ids are not on
                all ranks, are partial sums, or lie elsewhere than ``table_ids``.
            IndexError: there is no such table.
        """
        if ids.is_global and not _is_tracing():
            return self._global(ids, table_ids)
        if _is_tracing():
            self._check(ids, table_ids)
            return self._traced((ids, table_ids), [*ids.shape, self.embedding_dim])
        return self._looked_up(self._ahead.take((ids, table_ids)) or Embedding._lookup(self, ids, table_ids))

    def _global(self, ids: Tensor, table_ids: Tensor | None) -> Tensor:
        """Look up global ids: each rank its part."""
        name, placement, sbp = type(self).__name__, ids.placement, ids.sbp
        ranks = sorted(oneflow.tensor(placement.ranks).flatten().tolist())
        if ranks != list(range(self.n_ranks)) or oneflow.sbp.partial_sum in sbp:
            raise ValueError(
                f"{name}: global ids must be split or broadcast over all {self.n_ranks} ranks, got {placement}, {sbp}"
            )
        tables = None
        if table_ids is not None:
            if not table_ids.is_global or table_ids.placement != placement or table_ids.sbp != sbp:
                raise ValueError(f"{name}: table_ids must be a global tensor on {placement} with {sbp}, as ids are")
            tables = table_ids.to_local()
        of = Embedding._lookup(self, ids.to_local(), tables)
        # Owners add the gradients of all ranks. Of equal parts one rank has the gradient, and the others have zeros.
        of.grad_factor = 1.0 / self._grad_scale
        return self._looked_up(of).to_global(placement=placement, sbp=sbp)

    def prefetch(self, ids: Tensor, table_ids: Tensor | None = None) -> None:
        """Prepare a lookup on another thread: duplicates, exchanges between ranks, reads from disk, values of new ids.

        The call of the module with these very tensors then finds all that done; it returns the same rows as without.
        With several ranks all of them prefetch, in one order. :class:`Prefetcher` does this for a loader.

        Args:
            ids, table_ids: as the module takes them.
        """
        self._check(ids, table_ids)
        self._ahead.start((ids, table_ids), lambda: self._brought(Embedding._lookup(self, ids, table_ids)))

    def _lookup(self, *tensors: Any) -> Prepared:
        """The lookup of what ``forward`` takes, with its ids exchanged."""
        ids, table_ids = tensors
        return prepared(self, self._batch(ids, table_ids), [*ids.shape, self.embedding_dim], None)

    def _brought(self, of: Prepared) -> Prepared:
        """A lookup whose rows have been brought into memory."""
        with record_function("one_embedding.prefetch"):
            if self.staleness:
                of.n_updates, of.rows = self._ahead.n_updates, self._owned_rows(of, True)
            else:
                self._store.prefetch(of.owned)
        return of

    def _prepare(self, *tensors: Any) -> Prepared:
        return self._ahead.run(lambda: self._brought(self._lookup(*tensors)))

    def _traced(self, tensors: tuple[Tensor | None, ...], sizes: list[int]) -> Tensor:
        graph = lookups.current()
        if graph is None:
            raise NotImplementedError(
                f"{type(self).__name__}: lookups are part of nn.Graph alone: call it outside of the compiled function"
            )
        self._ahead.make_group()
        rows = graph.add(self, self.shadow, tensors, sizes)
        return rows if self.dtype is oneflow.float32 else rows.to(self.dtype)

    def _looked_up(self, of: Prepared) -> Tensor:
        if not (oneflow.is_grad_enabled() and self.shadow.requires_grad):
            rows = self._rows(of, False)
            return rows if self.dtype is oneflow.float32 else rows.to(self.dtype)
        if self._pending and not self._has_optimizer:
            raise ValueError(
                f"{type(self).__name__}: gradients of rows wait, and no optimizer takes them: wrap the optimizer in "
                "oneflow.one_embedding.Optimizer"
            )
        return _Lookup.apply(self.shadow, self, of)

    def _owned_rows(self, of: Prepared, trains: bool) -> Tensor:
        """What a lookup reads of this rank's store."""
        if of.bags is not None:
            return self._store.lookup_bags(of.batch, of.bags, of.sizes, trains)
        sizes = of.sizes if of.exchange is None else [len(of.owned), self.embedding_dim]
        return self._store.lookup(of.owned, sizes, trains)

    def _rows(self, of: Prepared, trains: bool) -> Tensor:
        """Rows or bags of a lookup as they are now, in float32."""
        with record_function("one_embedding.lookup"):
            early, of.rows = of.rows, None
            if early is not None and self._ahead.n_updates - of.n_updates > self.staleness:
                early = None
            rows = self._owned_rows(of, trains) if early is None else early
            if of.exchange is None:
                return rows
            kept = of.exchange.kept_batch
            own = None if kept is None else self._store.lookup(kept, [len(kept), self.embedding_dim], trains)
            return of.exchange.lookup(rows, own, self.embedding_dim, of.sizes)

    def _keep_gradient(self, of: Prepared, grad: Tensor) -> None:
        """Keep the gradient of a lookup's result for the optimizer's step."""
        grad, bags = grad.detach(), of.bags
        if of.exchange is None and bags is None:
            grad, size = _without_repeats(grad)
            bags = None if size == 1 else _EmbeddingBags(of.owned, None, False, size, None, False)
        rows = grad.to(oneflow.float32).contiguous()
        if of.grad_factor != 1.0:
            rows = rows * of.grad_factor
        if of.exchange is None:
            self._pending.append((of.owned, rows, bags))
            return
        for batch, part in of.exchange.gradients(rows, self.embedding_dim):
            self._pending.append((batch, part, None))

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

        A snapshot that another number of ranks saved below the same path is read whole by each rank, which keeps the
        rows that it owns now.

        Raises:
            ValueError: there is no such snapshot.
            RuntimeError: one of its files is damaged.
        """
        others = []
        if snapshot_name not in self._store.snapshots():
            others = folders_of_other_worlds(self._persistent_path, self.n_ranks, snapshot_name)
        if others:
            self._take_over(others, snapshot_name)
        else:
            self._store.load_snapshot(snapshot_name)
        self._ahead.forget()
        # Its copies may be of another time than the rows of their owners.
        self._replicas = None
        self._pending.clear()

    def _take_over(self, folders: list[str], snapshot_name: str) -> None:
        saved = [_EmbeddingSaved(path, snapshot_name) for path in folders]
        expected = self._store.config()
        for path, part in zip(folders, saved, strict=True):
            if part.config() != expected:
                raise ValueError(
                    f"{type(self).__name__}: the snapshot in {path} is of a store with {part.config()}, this one has "
                    f"{expected}"
                )
        tables, ids = self._store.keys()
        self._store.remove(_EmbeddingBatch(ids, tables, self.num_tables, None))
        for part in saved:
            for first in range(0, len(part), AT_ONCE):
                rows = part.records(first, first + AT_ONCE)
                mine = owned(rows[0], rows[1], self.n_ranks, self.rank, self.num_tables)
                self._store.put(*[column[mine].contiguous() for column in rows])
        self._store.commit()

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
        self._ahead.close()
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

    def forget(
        self,
        table: int | None = None,
        *,
        unused_steps: int | None = None,
        below_count: int | None = None,
        below_norm: float | None = None,
        max_rows: int | None = None,
        score: str = "count",
    ) -> int:
        """Remove rows that are of no use any more; their ids have their initial weights again. Reads every row.

        Args:
            table: one table; all of them if None.
            unused_steps: rows that the optimizer's last so many steps did not update.
            below_count: rows that updates named less often.
            below_norm: rows whose weights have a smaller L2 norm.
            max_rows: all but so many rows, those with the highest score.
            score: ``"count"``, ``"recency"`` or ``"norm"``: what ``max_rows`` goes by.

        Returns:
            How many rows were removed, on this rank.

        Raises:
            IndexError: there is no such table.
            ValueError: a number is negative, or there is no such score.
        """
        for name, value in {"unused_steps": unused_steps, "below_count": below_count, "max_rows": max_rows}.items():
            if value is not None and value < 0:
                raise ValueError(f"{type(self).__name__}.forget: {name} must not be negative, got {value}")
        before = None if unused_steps is None else max(self._step - unused_steps + 1, 0)
        keep = None if max_rows is None else (score, max_rows)
        return self._store.forget(table, before, below_count, below_norm, keep)

    def replicate(self, n: int) -> int:
        """Let every rank keep the ``n`` rows that updates named most often, so that they do not travel between ranks.

        All ranks call this together, between steps; again to choose anew, and with 0 to end it. Lookups and updates
        give the same rows as before, up to the order in which gradients are added. With one rank nothing changes.

        Args:
            n: rows.

        Returns:
            How many rows are kept.

        Raises:
            ValueError: ``n`` is negative.
        """
        if n < 0:
            raise ValueError(f"{type(self).__name__}.replicate: the number of rows must not be negative, got {n}")
        if self.n_ranks == 1:
            return 0
        self._ahead.forget()
        if self._replicas is not None:
            self._replicas.drop_copies(self._store, self.rank, self.n_ranks)
            self._replicas = None
        if n == 0:
            return 0
        chosen = Replicas(*hottest(self._store, n, self.n_ranks), self.num_tables)
        chosen.copy_rows(self._store, self.rank, self.n_ranks)
        self._replicas = chosen if len(chosen) else None
        return len(chosen)

    def rows_by_table(self) -> list[int]:
        """Rows of each table that were trained, on this rank. Reads the pages of small rows."""
        return self._store.rows_by_table()

    def compact(self) -> None:
        """Rewrite files until they hold little but rows in use, and commit."""
        self._store.compact()

    def statistics(self) -> dict[str, int]:
        """Rows, bytes in memory and on disk, and what lookups found, on this rank.

        ``hits``, ``reads`` and ``initial`` count different ids of lookups and updates that were found in memory, read
        from disk, or have no row; ``prefetched`` counts rows that were read from disk before their lookup, which then
        hits; ``refused`` counts new ids that were not admitted, each time; ``stalled_ns`` is the
        time in which calls waited for the disk, in nanoseconds.
        """
        return self._store.stats()

    def metrics(self) -> str:
        """The statistics as text in Prometheus' format, one gauge each, labelled with the embedding's name and rank."""
        labels = f'{{name="{self.embedding_name}",rank="{self.rank}"}}'
        lines = []
        for name, value in self.statistics().items():
            lines += [f"# TYPE one_embedding_{name} gauge", f"one_embedding_{name}{labels} {value}"]
        return "\n".join(lines) + "\n"

    def _gradient_square(self) -> Tensor:
        """The squared norm of the gradients that wait, those of the same id added, over all ranks; float64."""
        if self._replicas is not None:
            raise NotImplementedError(f"{type(self).__name__}: norms do not count the gradients of replicas")
        total = oneflow.zeros((), dtype=oneflow.float64)
        if self._pending:
            batches, grads, bags = map(list, zip(*self._pending, strict=True))
            total = oneflow.tensor(self._store.gradient_square(batches, grads, bags), dtype=oneflow.float64)
        if self.n_ranks > 1:
            oneflow.distributed.all_reduce(total)
        return total * self._grad_scale**2

    def _forget_gradients(self) -> None:
        self._pending.clear()


class MultiTableEmbedding(Embedding):
    """Tables of embeddings of one size, with any number of rows: any id has a row, created when it is first trained.

    Until then an id's weights are a function of seed, table, id and column. A store has one writer; its folder opens
    with the options that it was created with.

    Args:
        name: of the embedding.
        embedding_dim: weights a row.
        dtype: of the weights that lookups give: float32, float16 or bfloat16. Rows and their state are float32, so that
            small updates of half weights are not lost.
        key_type: of the ids: int32, int64 or uint64.
        tables: options of each table, by :func:`make_table_options`; None is one table with ``default_initializer``.
        store_options: by :func:`make_cached_ssd_store_options`, :func:`make_cached_host_mem_store_options` or
            :func:`make_device_mem_store_options`.
        default_initializer: of a table that has no options; normal with a deviation of 0.05 if None.
        padding_idx: an id whose weights are zeros and stay so.
        seed: of the initial weights.
        payload: dtype of rows and gradients on their way between ranks: float32, bfloat16, float16, or int8 with a
            scale for each row.
        average_gradients: with several ranks, updates take the mean of the ranks' gradients, as
            ``DistributedDataParallel`` does for parameters; else the sum.
        staleness: steps by which rows of a prefetched lookup may be behind: 0 reads all rows after the updates before
            the lookup; otherwise rows that were read with the prefetch are used, unless more steps came meanwhile.

    Raises:
        NotImplementedError: there is no such dtype of weights.
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
