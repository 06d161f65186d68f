"""DataLoader: batches of a data set, loaded in this process or by worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from oneflow.utils.data._workers import WorkerPool
from oneflow.utils.data.collate import default_collate, default_convert
from oneflow.utils.data.dataset import IterableDataset
from oneflow.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler


class DataLoader:
    """Iterate over batches of ``dataset``.

    Args:
        dataset: with items and a length, or an IterableDataset.
        batch_size: samples a batch; None gives single samples.
        shuffle: visit in random order.
        sampler, batch_sampler: another order.
        num_workers: processes that load ahead; 0 loads here.
        collate_fn: joins a list of samples to a batch.
        pin_memory: accepted for compatibility.
        drop_last: leave out a last shorter batch.
        timeout: seconds to wait for a worker, 0 for ever.
        worker_init_fn: called with its number in every worker.
        generator: source of the random order.
        prefetch_factor: batches each worker is ahead, 2 by default.
        persistent_workers: keep the workers between iterations.

    Example::

        >>> data = oneflow.utils.data.TensorDataset(oneflow.arange(4))
        >>> [batch for (batch,) in oneflow.utils.data.DataLoader(data, batch_size=2)]
        [tensor([0, 1]), tensor([2, 3])]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("prefetch_factor option could only be specified in multiprocessing: set num_workers > 0")
        if num_workers == 0 and persistent_workers:
            raise ValueError("persistent_workers option needs num_workers > 0")
        self.dataset = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = 2 if prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self._pool: WorkerPool | None = None
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("DataLoader with IterableDataset: shuffle, sampler and batch_sampler do not apply")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None and not self._iterable:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None and not self._iterable:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        batched = batch_sampler is not None or (self._iterable and batch_size is not None)
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)

    def __len__(self) -> int:
        if self._iterable:
            n = len(self.dataset)
            if self.batch_size is None:
                return n
            return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        return len(self._index_sampler)

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers > 0 and not self._iterable:
            return self._from_workers()
        return self._from_stream() if self._iterable else map(self._load, self._index_sampler)

    def _load(self, index: Any) -> Any:
        return load_batch(self.dataset, self.collate_fn, index)

    def _from_stream(self) -> Iterator[Any]:
        if self.batch_size is None:
            yield from map(self.collate_fn, self.dataset)
            return
        batch: list[Any] = []
        for sample in self.dataset:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.collate_fn(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.collate_fn(batch)

    def _from_workers(self) -> Iterator[Any]:
        pool = self._pool
        if pool is None:
            pool = WorkerPool(
                self.num_workers,
                load_batch,
                (self.dataset, self.collate_fn),
                self.worker_init_fn,
                self.timeout,
                self.multiprocessing_context,
            )
        if self.persistent_workers:
            self._pool = pool
        try:
            yield from pool.map(iter(self._index_sampler), self.num_workers * self.prefetch_factor)
        finally:
            if not self.persistent_workers:
                pool.close()


def load_batch(dataset: Any, collate_fn: Callable[[Any], Any], index: Any) -> Any:
    """One batch: the samples at a list of indices joined, or the single sample at one."""
    if not isinstance(index, (list, tuple)):
        return collate_fn(dataset[index])
    many = getattr(dataset, "__getitems__", None)
    return collate_fn(many(index) if many is not None else [dataset[i] for i in index])
