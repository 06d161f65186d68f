"""Samplers: the order in which a loader visits a data set."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import oneflow

T_co = TypeVar("T_co", covariant=True)

# Draws with replacement at a time.
_CHUNK = 32


class Sampler(Generic[T_co]):
    """Base class: iterate over indices, or over lists of them.

    Example::

        >>> class Odd(oneflow.utils.data.Sampler):
        ...     def __iter__(self):
        ...         return iter([1, 3])
        >>> list(Odd())
        [1, 3]
    """

    def __init__(self, data_source: Any = None) -> None:
        pass

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ...

    Example::

        >>> list(oneflow.utils.data.SequentialSampler([7, 8, 9]))
        [0, 1, 2]
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A random order, or draws with replacement.

    Args:
        data_source: has a length.
        replacement: draw independently.
        num_samples: how many; the length by default.
        generator: source of the numbers; a new one seeded from the default generator by default.

    Example::

        >>> sorted(oneflow.utils.data.RandomSampler([7, 8, 9]))
        [0, 1, 2]
    """

    def __init__(
        self, data_source: Any, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self) -> int:
        """Return the number of indices of an iteration."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = oneflow.Generator()
            generator.manual_seed(int(oneflow.empty((), dtype=oneflow.int64).random_().item()))
        # Drawn on demand: there may be more samples than memory. The last draw takes place even if it is empty,
        # so that a shared generator ends in the same state as PyTorch's.
        if self.replacement:
            for _ in range(self.num_samples // _CHUNK):
                yield from oneflow.randint(0, n, (_CHUNK,), generator=generator).tolist()
            yield from oneflow.randint(0, n, (self.num_samples % _CHUNK,), generator=generator).tolist()
            return
        for _ in range(self.num_samples // n):
            yield from oneflow.randperm(n, generator=generator).tolist()
        yield from oneflow.randperm(n, generator=generator).tolist()[: self.num_samples % n]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Yields the given indices in a random order.

    Example::

        >>> sorted(oneflow.utils.data.SubsetRandomSampler([4, 2]))
        [2, 4]
    """

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in oneflow.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Draws 0, 1, ... with the given weights.

    Args:
        weights: one a position; they need not sum to one.
        num_samples: how many draws.
        replacement: draw independently; otherwise no index comes twice.
        generator: source of the numbers.

    Example::

        >>> list(oneflow.utils.data.WeightedRandomSampler([0.0, 1.0], 3))
        [1, 1, 1]
    """

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Any = None
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = oneflow.as_tensor(weights, dtype=oneflow.float64)
        if self.weights.dim() != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        draws = oneflow.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from draws.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of ``batch_size`` indices of another sampler.

    Args:
        sampler: yields the indices.
        batch_size: positive.
        drop_last: leave out a last shorter batch.

    Example::

        >>> list(oneflow.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        source = iter(self.sampler)
        while batch := list(itertools.islice(source, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
