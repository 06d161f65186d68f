"""``filter``: the samples for which a function is true."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from oneflow.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from oneflow.utils.data.datapipes.utils.common import _check_unpickable_fn, validate_input_col

__all__ = ["FilterIterDataPipe"]


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe[Any]):
    """The samples for which a function is true (functional form: ``filter``).

    Args:
        datapipe: the source.
        filter_fn: returns True or False.
        input_col: the column of a sample, or several, that it gets in place of the sample.

    Raises:
        ValueError: the function takes another number of arguments, or returns something else.

    Example::

        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(["a", "B"]).filter(str.isupper))
        ['B']
    """

    def __init__(self, datapipe: IterDataPipe[Any], filter_fn: Callable[..., Any], input_col: Any = None) -> None:
        _check_unpickable_fn(filter_fn)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col
        validate_input_col(filter_fn, input_col)

    def _is_wanted(self, data: Any) -> bool:
        if self.input_col is None:
            found = self.filter_fn(data)
        elif isinstance(self.input_col, (list, tuple)):
            found = self.filter_fn(*(data[column] for column in self.input_col))
        else:
            found = self.filter_fn(data[self.input_col])
        if not isinstance(found, bool):
            raise ValueError(
                f"Boolean output is required for `filter_fn` of FilterIterDataPipe, got {type(found).__name__}"
            )
        return found

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            if self._is_wanted(data):
                yield data
