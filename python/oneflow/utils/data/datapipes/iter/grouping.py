"""``batch``, ``unbatch`` and ``groupby``: lists of samples, and samples of lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from oneflow.utils.data.datapipes.datapipe import DataChunk, IterDataPipe, functional_datapipe
from oneflow.utils.data.datapipes.utils.common import _check_unpickable_fn, length

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe[Any]):
    """Lists of ``batch_size`` samples (functional form: ``batch``).

    Args:
        datapipe: the source.
        batch_size: samples in a list.
        drop_last: leave out a last shorter list.
        wrapper_class: makes a batch of a list.

    Raises:
        AssertionError: ``batch_size`` is not positive.

    Example::

        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(5)).batch(2, drop_last=True))
        [[0, 1], [2, 3]]
    """

    def __init__(
        self, datapipe: IterDataPipe[Any], batch_size: int, drop_last: bool = False, wrapper_class: Any = DataChunk
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for value in self.datapipe:
            batch.append(value)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        n = length(self, self.datapipe)[0]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe[Any]):
    """The samples of lists (functional form: ``unbatch``).

    Args:
        datapipe: the source.
        unbatch_level: levels of lists that are taken apart; -1 for all.

    Raises:
        ValueError: a level below -1.
        IndexError: there are fewer levels.

    Example::

        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([[1, [2]], [3]]).unbatch())
        [1, [2], 3]
    """

    def __init__(self, datapipe: IterDataPipe[Any], unbatch_level: int = 1) -> None:
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[Any]:
        if self.unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        for element in self.datapipe:
            yield from self._flat(element, self.unbatch_level)

    def _flat(self, element: Any, level: int) -> Iterator[Any]:
        if isinstance(element, list) and level != 0:
            for item in element:
                yield from self._flat(item, max(level - 1, -1))
        elif level > 0:
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")
        else:
            yield element


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe[Any]):
    """Lists of samples of one key (functional form: ``groupby``).

    A group leaves when it has ``group_size`` samples; when the buffer is full the largest leaves, and in the end all
    do.

    Args:
        datapipe: the source.
        group_key_fn: the key of a sample.
        keep_key: yield pairs of key and group.
        buffer_size: samples that wait for their groups at most.
        group_size: samples in a group at most.
        guaranteed_group_size: samples at least of a group that leaves because the buffer is full; ``group_size`` by
            default.
        drop_remaining: drop a smaller one then, which raises otherwise.

    Raises:
        AssertionError: sizes that do not fit each other.
        RuntimeError: the buffer is full of small groups.

    Example::

        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(["a1", "b1", "a2"]).groupby(min))
        [['a1', 'b1'], ['a2']]
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        group_key_fn: Callable[[Any], Any],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        _check_unpickable_fn(group_key_fn)
        if group_size is not None and not 0 < group_size <= buffer_size:
            raise AssertionError("group_size must be > 0 and <= buffer_size")
        if guaranteed_group_size is not None and (group_size is None or not 0 < guaranteed_group_size <= group_size):
            raise AssertionError("guaranteed_group_size must be > 0 and <= group_size and group_size must be set")
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.max_buffer_size, self.group_size, self.drop_remaining = buffer_size, group_size, drop_remaining
        self.guaranteed_group_size = group_size if guaranteed_group_size is None else guaranteed_group_size

    def __iter__(self) -> Iterator[Any]:
        groups: dict[Any, list[Any]] = {}
        n_waiting = 0
        for value in self.datapipe:
            key = self.group_key_fn(value)
            groups.setdefault(key, []).append(value)
            n_waiting += 1
            if len(groups[key]) == self.group_size:
                n_waiting -= self.group_size
                yield self._made(key, groups.pop(key))
            if n_waiting == self.max_buffer_size:
                largest = max(groups, key=lambda k: len(groups[k]))
                group = groups.pop(largest)
                n_waiting -= len(group)
                if len(group) >= (self.guaranteed_group_size or 0):
                    yield self._made(largest, group)
                elif not self.drop_remaining:
                    raise RuntimeError("Failed to group items", str(group))
        for key in list(groups):
            yield self._made(key, groups.pop(key))

    def _made(self, key: Any, group: list[Any]) -> Any:
        return (key, DataChunk(group)) if self.keep_key else DataChunk(group)
