"""``SequenceWrapper``: the start of a pipeline of tables."""

from __future__ import annotations

import copy
import warnings
from typing import Any

from oneflow.utils.data.datapipes.datapipe import MapDataPipe

__all__ = ["SequenceWrapperMapDataPipe"]


class SequenceWrapperMapDataPipe(MapDataPipe[Any]):
    """A table of the items of a list or a dictionary.

    Args:
        sequence: what is looked up.
        deepcopy: look up a copy, so that changes in place do not stay.

    Example::

        >>> from oneflow.utils.data.datapipes.map import SequenceWrapper
        >>> SequenceWrapper({"a": 1})["a"], len(SequenceWrapper([1, 2]))
        (1, 2)
    """

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence = sequence
        if deepcopy:
            try:
                self.sequence = copy.deepcopy(sequence)
            except TypeError:
                warnings.warn(
                    "The input sequence can not be deepcopied, please be aware of in-place modification would affect "
                    "source data",
                    stacklevel=2,
                )

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)
