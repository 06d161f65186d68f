"""``shuffle`` and ``Sampler``: another order of samples."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sized
from typing import Any

import oneflow
from oneflow.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from oneflow.utils.data.datapipes.utils.common import length
from oneflow.utils.data.sampler import SequentialSampler

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]


def draw_seed() -> int:
    """A seed of the default generator."""
    return int(oneflow.empty((), dtype=oneflow.int64).random_().item())


class SamplerIterDataPipe(IterDataPipe[Any]):
    """What a sampler draws from a source with a length.

    Args:
        datapipe: the source, which the sampler's class gets as ``data_source``.
        sampler: a class of :mod:`oneflow.utils.data`; in order by default.
        sampler_args, sampler_kwargs: its further arguments.

    Example::

        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper, Sampler
        >>> list(Sampler(IterableWrapper("ab")))
        [0, 1]
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        sampler: Any = SequentialSampler,
        sampler_args: tuple[Any, ...] | None = None,
        sampler_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(datapipe, Sized):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")
        self.datapipe = datapipe
        self.sampler = sampler(*(sampler_args or ()), **{**(sampler_kwargs or {}), "data_source": datapipe})

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return length(self, self.sampler)[0]


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(IterDataPipe[Any]):
    """The samples in random order (functional form: ``shuffle``).

    A buffer is filled first; then each sample takes the place of a random one of the buffer, which is yielded. A data
    loader seeds it for each pass, the same in all workers.

    Args:
        datapipe: the source.
        buffer_size: the order is random throughout where it is not below the number of samples.
        unbatch_level: levels of batches that are taken apart first.

    Raises:
        AssertionError: ``buffer_size`` is not positive.

    Example::

        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> sorted(IterableWrapper(range(5)).shuffle().set_seed(0))
        [0, 1, 2, 3, 4]
    """

    def __init__(self, datapipe: IterDataPipe[Any], *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        self.datapipe = datapipe.unbatch(unbatch_level=unbatch_level) if unbatch_level else datapipe
        self.buffer_size = buffer_size
        self._buffer: list[Any] = []
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()

    def set_shuffle(self, shuffle: bool = True) -> ShufflerIterDataPipe:
        """Whether it shuffles at all."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> ShufflerIterDataPipe:
        """Seed the next pass; those after it are seeded by the default generator."""
        self._seed = seed
        return self

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        buffer, rng = self._buffer, self._rng
        for value in self.datapipe:
            if len(buffer) < self.buffer_size:
                buffer.append(value)
                continue
            place = rng.randint(0, len(buffer) - 1)
            chosen, buffer[place] = buffer[place], value
            yield chosen
        while buffer:
            yield buffer.pop(rng.randint(0, len(buffer) - 1))

    def __len__(self) -> int:
        return length(self, self.datapipe)[0]

    def reset(self) -> None:
        """Empty the buffer, and seed the order."""
        self._buffer = []
        if self._enabled:
            self._rng.seed(draw_seed() if self._seed is None else self._seed)
            self._seed = None
