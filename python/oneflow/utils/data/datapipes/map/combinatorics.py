"""``shuffle``: the items of a table as a stream in random order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from oneflow.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from oneflow.utils.data.datapipes.iter.combinatorics import draw_seed
from oneflow.utils.data.datapipes.utils.common import length

__all__ = ["ShufflerIterDataPipe"]


class ShufflerIterDataPipe(IterDataPipe[Any]):
    """A stream of the items in random order (functional form: ``shuffle``). A data loader seeds it for each pass.

    Args:
        datapipe: the table.
        indices: its keys; the numbers below its length by default.

    Example::

        >>> from oneflow.utils.data.datapipes.map import SequenceWrapper
        >>> sorted(SequenceWrapper("abc").shuffle().set_seed(0))
        ['a', 'b', 'c']
    """

    def __init__(self, datapipe: MapDataPipe[Any], *, indices: list[Any] | None = None) -> None:
        self.datapipe = datapipe
        self.indices = list(range(length(self, datapipe)[0])) if indices is None else indices
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()
        self._order: list[Any] = []

    def set_shuffle(self, shuffle: bool = True) -> ShufflerIterDataPipe:
        """Whether it shuffles at all."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> ShufflerIterDataPipe:
        """Seed the next pass; those after it are seeded by the default generator."""
        self._seed = seed
        return self

    def __iter__(self) -> Iterator[Any]:
        for index in self._order:
            yield self.datapipe[index]

    def reset(self) -> None:
        """Draw the order."""
        self._order = self.indices
        if self._enabled:
            self._rng.seed(draw_seed() if self._seed is None else self._seed)
            self._seed = None
            # From the last to the first, as PyTorch goes.
            self._order = self._rng.sample(self.indices, len(self.indices))[::-1]

    def __len__(self) -> int:
        return length(self, self.datapipe)[0]


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
