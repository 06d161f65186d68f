"""``batch``: lists of items."""

from __future__ import annotations

from typing import Any

from oneflow.utils.data.datapipes.datapipe import DataChunk, MapDataPipe, functional_datapipe
from oneflow.utils.data.datapipes.utils.common import length

__all__ = ["BatcherMapDataPipe"]


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe[Any]):
    """Lists of ``batch_size`` items, by number (functional form: ``batch``).

    Args:
        datapipe: the source.
        batch_size: items in a list.
        drop_last: there is no last shorter list.
        wrapper_class: makes a batch of a list.

    Raises:
        AssertionError: ``batch_size`` is not positive.

    Example::

        >>> from oneflow.utils.data.datapipes.map import SequenceWrapper
        >>> list(SequenceWrapper(range(5)).batch(2))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self, datapipe: MapDataPipe[Any], batch_size: int, drop_last: bool = False, wrapper_class: Any = DataChunk
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __getitem__(self, index: int) -> Any:
        batch: list[Any] = []
        try:
            for i in range(index * self.batch_size, (index + 1) * self.batch_size):
                batch.append(self.datapipe[i])
        except IndexError as error:
            if self.drop_last or not batch:
                raise IndexError(f"Index {index} is out of bound.") from error
        return self.wrapper_class(batch)

    def __len__(self) -> int:
        n = length(self, self.datapipe)[0]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
