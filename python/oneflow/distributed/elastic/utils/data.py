"""Samples from where a job was interrupted, and epochs one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import oneflow
from oneflow.utils.data.distributed import DistributedSampler

__all__ = ["CyclingIterator", "ElasticDistributedSampler"]


class CyclingIterator:
    """Runs the iterators of ``n`` epochs one after the other.

    Args:
        n: how many epochs.
        generator_fn: called with the number of an epoch; returns its iterator.
        start_epoch: the number of the first one.

    Example::

        >>> from oneflow.distributed.elastic.utils.data import CyclingIterator
        >>> list(CyclingIterator(2, lambda epoch: iter(range(epoch + 1))))
        [0, 0, 1]
    """

    def __init__(self, n: int, generator_fn: Callable[[int], Iterator[Any]], start_epoch: int = 0) -> None:
        self._n, self._epoch, self._generator_fn = n, start_epoch, generator_fn
        self._iter = generator_fn(start_epoch)

    def __iter__(self) -> CyclingIterator:
        return self

    def __next__(self) -> Any:
        while True:
            try:
                return next(self._iter)
            except StopIteration:
                if self._epoch >= self._n - 1:
                    raise
                self._epoch += 1
                self._iter = self._generator_fn(self._epoch)


class ElasticDistributedSampler(DistributedSampler):
    """A :class:`~oneflow.utils.data.DistributedSampler` that begins at sample ``start_index``, shuffled.

    Raises:
        ValueError: ``start_index`` is not smaller than the data set.

    Example::

        >>> from oneflow.distributed.elastic.utils.data import ElasticDistributedSampler
        >>> sampler = ElasticDistributedSampler(range(7), num_replicas=2, rank=0, start_index=3)
        >>> len(sampler), min(sampler) >= 3
        (2, True)
    """

    def __init__(
        self, dataset: Any, num_replicas: int | None = None, rank: int | None = None, start_index: int = 0
    ) -> None:
        super().__init__(dataset=dataset, num_replicas=num_replicas, rank=rank)
        if start_index >= len(dataset):
            raise ValueError(f"Start index {start_index} should be less than dataset size {len(dataset)}")
        self.start_index = start_index
        self.num_samples = math.ceil((len(dataset) - start_index) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        generator = oneflow.Generator().manual_seed(self.epoch)
        n = len(self.dataset) - self.start_index
        indices = [self.start_index + i for i in oneflow.randperm(n, generator=generator).tolist()]
        while len(indices) < self.total_size:
            indices += indices[: self.total_size - len(indices)]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples
