"""Lookups whose ids are known early: de-duplicated, exchanged and read from disk while earlier steps still compute.

Results do not change: rows are read when the lookup comes, after all updates before it, unless the embedding allows
older ones. Where ranks exchange ids, the thread that prepares has a process group of its own.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import oneflow
from oneflow import Tensor, distributed
from oneflow._base.untraced import untraced
from oneflow._oneflow import _EmbeddingBags, _EmbeddingBatch
from oneflow.one_embedding._exchange import Exchange

if TYPE_CHECKING:
    from oneflow.one_embedding._modules import Embedding

# Prefetched lookups that may wait for their call; older ones are forgotten.
MOST = 16


class Prepared:
    """A lookup before its rows are read.

    Args:
        batch: this rank's ids.
        sizes: of the result.
        bags: of the positions.
        exchange: where several ranks own rows.
    """

    __slots__ = ("bags", "batch", "exchange", "grad_factor", "n_updates", "rows", "sizes")

    def __init__(
        self, batch: _EmbeddingBatch, sizes: list[int], bags: _EmbeddingBags | None, exchange: Exchange | None
    ) -> None:
        self.batch, self.sizes, self.bags, self.exchange = batch, sizes, bags, exchange
        # What its gradient is multiplied by.
        self.grad_factor = 1.0
        # Rows that were read early, and after how many updates.
        self.rows: Tensor | None = None
        self.n_updates = 0

    @property
    def owned(self) -> _EmbeddingBatch:
        """The ids whose rows this rank has."""
        return self.batch if self.exchange is None else self.exchange.asked


class Ahead:
    """The prefetched lookups of an embedding, and the thread that prepares them."""

    def __init__(self, n_ranks: int) -> None:
        self._n_ranks = n_ranks
        self._home = threading.get_ident()
        self._group: Any = None
        # Updates of the embedding's rows so far.
        self.n_updates = 0
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: deque[tuple[tuple[Any, ...], tuple[Any, ...], Future[Prepared]]] = deque()

    def __deepcopy__(self, memo: Any) -> Ahead:
        return Ahead(self._n_ranks)

    def make_group(self) -> None:
        """Make the group in which other threads exchange ids. All ranks call this together."""
        if self._n_ranks > 1 and self._group is None:
            with untraced():
                self._group = distributed.new_group()

    def run(self, prepare: Callable[[], Prepared]) -> Prepared:
        """Call ``prepare``; on another thread than the embedding's, in the group for that."""
        with oneflow.no_grad():
            if self._n_ranks == 1 or threading.get_ident() == self._home:
                return prepare()
            self._group.enter_thread()
            try:
                return prepare()
            finally:
                self._group.leave_thread()

    def start(self, tensors: tuple[Tensor | None, ...], prepare: Callable[[], Prepared]) -> None:
        """Prepare the lookup of these tensors on the thread."""
        self.make_group()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="one_embedding")
        self._waiting.append((tensors, _versions(tensors), self._pool.submit(self.run, prepare)))
        if len(self._waiting) > MOST:
            _, _, forgotten = self._waiting.popleft()
            # Ranks take part in every exchange, so it runs all the same.
            forgotten.add_done_callback(lambda done: done.exception())

    def take(self, tensors: tuple[Tensor | None, ...]) -> Prepared | None:
        """The prepared lookup of these very tensors, if they were prefetched and have not been written since."""
        for i, (known, versions, future) in enumerate(self._waiting):
            if len(known) == len(tensors) and all(a is b for a, b in zip(known, tensors, strict=True)):
                del self._waiting[i]
                prepared = future.result()
                return prepared if versions == _versions(tensors) else None
        return None

    def forget(self) -> None:
        """Wait for what was prefetched, and drop it."""
        waiting, self._waiting = self._waiting, deque()
        for _, _, future in waiting:
            future.exception()

    def close(self) -> None:
        """End the thread, after what it has begun."""
        self._waiting.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _versions(tensors: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
    return tuple([None if t is None else t._version for t in tensors])


class Prefetcher:
    """A loader that looks one batch or several ahead, and prefetches their lookups while the program computes.

    Args:
        loader: an iterable of batches.
        lookups: called with a batch; returns its lookups, each a tuple of the embedding and the arguments of its call:
            ``[(embedding, ids)]`` or ``[(bags, ids, offsets)]``. The program must then look up by these very tensors.
        depth: batches ahead.

    Raises:
        ValueError: ``depth`` is not positive.

    Example::

        >>> import tempfile
        >>> from oneflow import one_embedding
        >>> embedding = one_embedding.MultiTableEmbedding(
        ...     "prefetched", 2, oneflow.float32, oneflow.int64, None,
        ...     one_embedding.make_cached_ssd_store_options(16, tempfile.mkdtemp()),
        ... )
        >>> batches = [oneflow.tensor([1, 2]), oneflow.tensor([2, 3])]
        >>> for ids in one_embedding.Prefetcher(batches, lambda ids: [(embedding, ids)]):
        ...     print(embedding(ids).shape)
        oneflow.Size([2, 2])
        oneflow.Size([2, 2])
    """

    def __init__(
        self, loader: Iterable[Any], lookups: Callable[[Any], Iterable[tuple[Any, ...]]], depth: int = 1
    ) -> None:
        if not isinstance(depth, int) or depth < 1:
            raise ValueError(f"Prefetcher: depth must be a positive integer, got {depth!r}")
        self.loader, self.lookups, self.depth = loader, lookups, depth

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        waiting: deque[Any] = deque()
        for batch in self.loader:
            for embedding, *arguments in self.lookups(batch):
                embedding.prefetch(*arguments)
            waiting.append(batch)
            if len(waiting) > self.depth:
                yield waiting.popleft()
        yield from waiting


def prepared(module: Embedding, batch: _EmbeddingBatch, sizes: list[int], bags: _EmbeddingBags | None) -> Prepared:
    """A lookup of a module: where several ranks own rows, its ids have been exchanged."""
    exchange = None
    if module.n_ranks > 1:
        exchange = Exchange(batch, module.n_ranks, module.num_tables, module.payload, module._replicas)
    return Prepared(batch, sizes, bags, exchange)
