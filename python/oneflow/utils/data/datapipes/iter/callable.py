"""``map`` and ``collate``: a function of each sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from oneflow.utils.data.collate import default_collate
from oneflow.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from oneflow.utils.data.datapipes.utils.common import _check_unpickable_fn, length, validate_input_col

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe[Any]):
    """A function of each sample (functional form: ``map``).

    Args:
        datapipe: the source.
        fn: the function.
        input_col: the column of a sample, or several, that it gets in place of the sample: places in a list or tuple,
            keys of a dictionary.
        output_col: where its result goes: in place of the first of ``input_col`` by default, whose others are then
            removed; -1 for behind the last.

    Raises:
        ValueError: ``output_col`` without ``input_col``, several, or a function that takes another number of arguments.

    Example::

        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> def double(x):
        ...     return 2 * x
        >>> list(IterableWrapper([1, 2]).map(double)), list(IterableWrapper([(1, 2)]).map(double, input_col=1))
        ([2, 4], [(1, 4)])
    """

    def __init__(
        self, datapipe: IterDataPipe[Any], fn: Callable[..., Any], input_col: Any = None, output_col: Any = None
    ) -> None:
        _check_unpickable_fn(fn)
        self.datapipe, self.fn, self.input_col = datapipe, fn, input_col
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        self.output_col = output_col
        validate_input_col(fn, input_col)

    def _apply_fn(self, data: Any) -> Any:
        if self.input_col is None:
            return self.fn(data)
        columns = list(self.input_col) if isinstance(self.input_col, (list, tuple)) else [self.input_col]
        result = self.fn(*(data[column] for column in columns))
        changed: Any = list(data) if isinstance(data, tuple) else data
        if self.output_col is None:
            changed[columns[0]] = result
            for column in sorted(columns[1:], reverse=True):
                del changed[column]
        elif self.output_col == -1:
            changed.append(result)
        else:
            changed[self.output_col] = result
        return tuple(changed) if isinstance(data, tuple) else changed

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            yield self._apply_fn(data)

    def __len__(self) -> int:
        return length(self, self.datapipe)[0]


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches as tensors (functional form: ``collate``).

    Args:
        datapipe: the source, of batches.
        conversion: the function of a batch; :func:`oneflow.utils.data.default_collate` by default.
        collate_fn: the same, by its other name.

    Raises:
        NotImplementedError: a function for each column of a data frame.

    Example::

        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(4)).batch(2).collate())
        [tensor([0, 1]), tensor([2, 3])]
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        conversion: Callable[..., Any] | dict[Any, Any] | None = default_collate,
        collate_fn: Callable[..., Any] | None = None,
    ) -> None:
        chosen = conversion if collate_fn is None else collate_fn
        if isinstance(chosen, dict):
            raise NotImplementedError("collate: there are no pipes of data frames; give one function")
        super().__init__(datapipe, chosen)  # type: ignore[arg-type]
