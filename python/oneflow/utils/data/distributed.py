"""DistributedSampler: every rank visits its own part of a data set."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import oneflow
from oneflow.utils.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Each rank visits every ``num_replicas``-th sample, all equally many.

    Args:
        dataset: has a length.
        num_replicas, rank: of the default process group by default.
        shuffle: one random order for all ranks, another each ``set_epoch``.
        seed: of that order; equal on all ranks.
        drop_last: leave out the tail that does not go round, instead of repeating samples.

    Example::

        >>> list(oneflow.utils.data.DistributedSampler(range(6), num_replicas=2, rank=1, shuffle=False))
        [1, 3, 5]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            import oneflow.distributed as dist

            if not dist.is_available():
                raise RuntimeError("Requires distributed package to be available")
            num_replicas = dist.get_world_size() if num_replicas is None else num_replicas
            rank = dist.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        n = len(dataset)
        if drop_last and n % num_replicas != 0:
            self.num_samples = math.ceil((n - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        if self.shuffle:
            generator = oneflow.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = oneflow.randperm(n, generator=generator).tolist()
        else:
            order = list(range(n))
        if self.drop_last:
            order = order[: self.total_size]
        else:
            missing = self.total_size - len(order)
            order += (order * math.ceil(missing / max(len(order), 1)))[:missing]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of this epoch. Call it on all ranks before iterating."""
        self.epoch = epoch
