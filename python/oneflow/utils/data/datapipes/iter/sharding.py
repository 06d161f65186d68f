"""``sharding_filter``: the part of a stream that one of several workers has."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

from oneflow.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from oneflow.utils.data.datapipes.utils.common import length

__all__ = ["SHARDING_PRIORITIES", "ShardingFilterIterDataPipe"]


class SHARDING_PRIORITIES(enum.IntEnum):
    """What a stream is divided between; of several the later ones change faster.

    Example::

        >>> from oneflow.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES
        >>> SHARDING_PRIORITIES.DISTRIBUTED < SHARDING_PRIORITIES.MULTIPROCESSING
        True
    """

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


class _ShardingIterDataPipe(IterDataPipe[Any]):
    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: SHARDING_PRIORITIES) -> None:
        raise NotImplementedError


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(_ShardingIterDataPipe):
    """Every ``n``-th sample, once it is one of ``n`` (functional form: ``sharding_filter``).

    A data loader divides it between its workers, and between the ranks of a job.

    Args:
        source_datapipe: the source.
        sharding_group_filter: the one group of :class:`SHARDING_PRIORITIES` that counts.

    Example::

        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> part = IterableWrapper(range(5)).sharding_filter()
        >>> part.apply_sharding(2, 1)
        >>> list(part), len(part)
        ([1, 3], 2)
    """

    def __init__(self, source_datapipe: IterDataPipe[Any], sharding_group_filter: Any = None) -> None:
        self.source_datapipe, self.sharding_group_filter = source_datapipe, sharding_group_filter
        self.groups: dict[int, tuple[int, int]] = {}
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(
        self,
        num_of_instances: int,
        instance_id: int,
        sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT,
    ) -> None:
        """Make it one of several, in one group.

        Raises:
            ValueError: ``instance_id`` is not below ``num_of_instances``.
            RuntimeError: the default group beside others.
        """
        if instance_id >= num_of_instances:
            raise ValueError(f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances})")
        default = SHARDING_PRIORITIES.DEFAULT
        if self.groups and (sharding_group == default) != (default in self.groups):
            raise RuntimeError("ShardingFilter cannot mix DEFAULT and non DEFAULT groups")
        self.groups[sharding_group] = num_of_instances, instance_id
        self.num_of_instances, self.instance_id = 1, 0
        for group in sorted(self.groups, reverse=True):
            if self.sharding_group_filter in (None, group):
                n, number = self.groups[group]
                self.instance_id += self.num_of_instances * number
                self.num_of_instances *= n

    def __iter__(self) -> Iterator[Any]:
        for i, item in enumerate(self.source_datapipe):
            if i % self.num_of_instances == self.instance_id:
                yield item

    def __len__(self) -> int:
        n = length(self, self.source_datapipe)[0]
        return n // self.num_of_instances + (self.instance_id < n % self.num_of_instances)
