"""DataLoader: batches of a data set, loaded in this process or by worker processes."""

from __future__ import annotations

import itertools
import multiprocessing
import sys
import warnings
from collections.abc import Callable, Iterator
from collections.abc import Generator as Iterating
from types import GenericAlias
from typing import Any

import oneflow
from oneflow.profiler import record_function
from oneflow.utils.data._workers import END, PRIMED, Fetcher, Raised, WorkerPool
from oneflow.utils.data.collate import default_collate, default_convert
from oneflow.utils.data.dataset import IterableDataset
from oneflow.utils.data.pinning import pin_memory
from oneflow.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler


class DataLoader:
    """Iterate over batches of ``dataset``.

    Args:
        dataset: with items and a length, or an IterableDataset.
        batch_size: samples a batch; None returns single samples.
        shuffle: visit in random order.
        sampler, batch_sampler: another order.
        num_workers: processes that load ahead; 0 loads here.
        collate_fn: joins a list of samples to a batch.
        pin_memory: put batches into pinned host memory, from where ``to("cuda", non_blocking=True)`` returns at once.
            Without a GPU it warns.
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
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        self.dataset = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers > 0 else prefetch_factor
        self.pin_memory_device = pin_memory_device
        self.in_order = in_order
        self.persistent_workers = persistent_workers
        self._pool: WorkerPool | None = None
        self._iterator: _Batches | None = None
        # What `len` has said of an iterable: more batches are worth a warning then.
        self._n_said: int | None = None
        self._iterable = isinstance(dataset, IterableDataset)
        if _is_pipe(dataset) and self._iterable and shuffle is not None:
            from oneflow.utils.data.graph_settings import apply_shuffle_settings

            self.dataset, shuffle = apply_shuffle_settings(dataset, shuffle), None
        if self._iterable:
            for option, value in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
                if value is not None:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {option} option, "
                        f"but got {option}={value}"
                    )
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
        self._is_set_up = True

    def __setattr__(self, name: str, value: Any) -> None:
        fixed = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
        if self.__dict__.get("_is_set_up") and name in fixed:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def _dataset_kind(self) -> int:
        return _DatasetKind.Iterable if self._iterable else _DatasetKind.Map

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    # `DataLoader[Sample]` in annotations.
    __class_getitem__: Any = classmethod(GenericAlias)

    def __len__(self) -> int:
        if self._iterable:
            n = len(self.dataset)
            if self.batch_size is not None:
                n = n // self.batch_size if self.drop_last else -(-n // self.batch_size)
            self._n_said = n
            return n
        return len(self._index_sampler)

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> Iterator[Any]:
        if not self.persistent_workers or self.num_workers == 0:
            return self._get_iterator()
        # Workers that are kept work for one pass at a time: there is one iterator, which starts over.
        if self._iterator is None:
            self._iterator = self._without_iterator()._get_iterator()
        else:
            self._iterator._loader._n_said = self._n_said
            self._iterator._reset()
        return self._iterator

    def _get_iterator(self) -> _Batches:
        """A new pass; loaders that make one pass endless call it."""
        return _Batches(self)

    def _without_iterator(self) -> DataLoader:
        """The settings that an iterator reads, without a cycle that would keep the workers alive."""
        loader = object.__new__(type(self))
        loader.__dict__.update(self.__dict__)
        return loader

    def _draw_base_seed(self) -> int:
        return int(oneflow.empty((), dtype=oneflow.int64).random_(generator=self.generator).item())

    def _draw_shared_seed(self) -> int | None:
        if not _is_pipe(self.dataset):
            return None
        from oneflow.utils.data.datapipes._loading import shared_seed

        return shared_seed(self.dataset, self.generator)

    def _fetcher(self, shared_seed: int | None) -> Fetcher:
        made: Fetcher = _Map(self.dataset, self.collate_fn)
        if self._iterable:
            made = _Stream(self.dataset, self.collate_fn, self.batch_size, self.drop_last)
        if not _is_pipe(self.dataset):
            return made
        from oneflow.utils.data.datapipes._loading import PipeFetcher, place_of_rank

        return PipeFetcher(made, shared_seed, place_of_rank())

    def _load_all(self, base_seed: int, shared_seed: int | None) -> Iterating[Any, None, None]:
        indices = itertools.repeat(None) if self._iterable else iter(self._index_sampler)
        if self.num_workers > 0:
            yield from self._from_workers(indices, base_seed, shared_seed)
            return
        fetcher = self._fetcher(shared_seed)
        fetcher.start()
        for index in indices:
            try:
                batch = fetcher.fetch(index)
            except Exception as error:
                yield Raised(error)
                continue
            if batch is END:
                return
            yield batch

    def _from_workers(self, indices: Iterator[Any], base_seed: int, shared_seed: int | None) -> Iterator[Any]:
        pool = self._pool
        if pool is None:
            pool = WorkerPool(
                self.num_workers,
                self._fetcher(shared_seed),
                self.worker_init_fn,
                self.timeout,
                self.multiprocessing_context,
                base_seed,
            )
        if self.persistent_workers:
            self._pool, pool.is_kept = pool, True
        try:
            yield from pool.map(indices, self.num_workers * (self.prefetch_factor or 2), self.in_order)
        except RuntimeError:
            # Workers that died or hang receive no more tasks.
            self._pool = None
            raise
        finally:
            if pool is not self._pool:
                pool.close()


def _is_pipe(dataset: Any) -> bool:
    """Whether it is one of :mod:`oneflow.utils.data.datapipes`, which nobody has who did not import them."""
    module = sys.modules.get("oneflow.utils.data.datapipes.datapipe")
    return module is not None and isinstance(dataset, (module.IterDataPipe, module.MapDataPipe))


class _Batches:
    """One pass over the loader's batches. With workers, they begin to load at once."""

    def __init__(self, loader: Any) -> None:
        loader = loader if isinstance(loader, DataLoader) else _adopt(loader)
        self._loader: DataLoader = loader
        self._shared_seed = loader._draw_shared_seed()
        self._base_seed = loader._draw_base_seed()
        self._pins = loader.pin_memory and oneflow.cuda.is_available()
        if loader.pin_memory and not self._pins:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, "
                "then device pinned memory won't be used.",
                stacklevel=2,
            )
        self._start()

    def _reset(self) -> None:
        """Begin another pass with the same workers; results of the last one are dropped."""
        self._batches.close()
        self._start()

    def _start(self) -> None:
        loader = self._loader
        self._n_given, self._n_expected = 0, loader._n_said
        self._batches = loader._load_all(self._base_seed, self._shared_seed)
        if loader.num_workers > 0 and next(self._batches) is not PRIMED:
            raise AssertionError("workers begin with their first tasks")

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> Any:
        with record_function("enumerate(DataLoader)#DataLoader.__next__"):
            batch = next(self._batches)
            if isinstance(batch, Raised):
                raise batch.error
            batch = pin_memory(batch) if self._pins else batch
        self._n_given += 1
        if self._n_expected is not None and self._n_given > self._n_expected:
            loader = self._loader
            how = "For multiprocessing data-loading, each worker has to give its own part of the data set."
            warnings.warn(
                f"Length of IterableDataset {loader.dataset} was reported to be {self._n_expected} (when accessing "
                f"len(dataloader)), but {self._n_given} samples have been fetched. {how if loader.num_workers else ''}",
                stacklevel=2,
            )
        return batch

    next = __next__

    def __len__(self) -> int:
        return len(self._loader)


# The names that programs look for: with workers or without, passes are of one class.
_BaseDataLoaderIter = _SingleProcessDataLoaderIter = _MultiProcessingDataLoaderIter = _Batches
_collate_fn_t = Callable[[list[Any]], Any]


class _DatasetKind:
    """Whether samples are found by index or come one after the other."""

    Map = 0
    Iterable = 1


def _adopt(loader: Any) -> DataLoader:
    """A loader over the data of an object that has the attributes of one, as loaders of packages are."""
    made = DataLoader(
        range(0),
        batch_size=None,
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        generator=loader.generator,
        prefetch_factor=loader.prefetch_factor if loader.num_workers > 0 else None,
    )
    is_iterable = loader._dataset_kind == _DatasetKind.Iterable
    vars(made).update(dataset=loader.dataset, sampler=loader._index_sampler, _iterable=is_iterable)
    return made


class _Map(Fetcher):
    """Samples by index."""

    def __init__(self, dataset: Any, collate_fn: Callable[[Any], Any]) -> None:
        self.dataset, self.collate_fn = dataset, collate_fn

    def fetch(self, index: Any) -> Any:
        dataset = self.dataset
        if not isinstance(index, (list, tuple)):
            return self.collate_fn(dataset[index])
        many = getattr(dataset, "__getitems__", None)
        return self.collate_fn(many(index) if many else [dataset[i] for i in index])


class _Stream(Fetcher):
    """Samples as they come."""

    def __init__(self, dataset: Any, collate_fn: Callable[[Any], Any], batch_size: int | None, drop_last: bool) -> None:
        self.dataset, self.collate_fn = dataset, collate_fn
        self.batch_size, self.drop_last = batch_size, drop_last

    def start(self) -> None:
        self.samples = iter(self.dataset)

    def fetch(self, index: Any) -> Any:
        if self.batch_size is None:
            sample = next(self.samples, END)
            return END if sample is END else self.collate_fn(sample)
        batch = list(itertools.islice(self.samples, self.batch_size))
        if not batch or (self.drop_last and len(batch) < self.batch_size):
            return END
        return self.collate_fn(batch)


def _check_workers(
    num_workers: int,
    timeout: float,
    prefetch_factor: int | None,
    persistent_workers: bool,
    multiprocessing_context: Any,
) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if num_workers == 0 and persistent_workers:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if multiprocessing_context is not None:
        if num_workers == 0:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
                f"but got num_workers={num_workers}"
            )
        methods = multiprocessing.get_all_start_methods()
        if isinstance(multiprocessing_context, str) and multiprocessing_context not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods!r}, "
                f"but got multiprocessing_context={multiprocessing_context!r}"
            )
        if not isinstance(multiprocessing_context, (str, multiprocessing.context.BaseContext)):
            raise TypeError(
                "multiprocessing_context option should be a valid context object or a string specifying the start "
                f"method, but got multiprocessing_context={multiprocessing_context}"
            )
