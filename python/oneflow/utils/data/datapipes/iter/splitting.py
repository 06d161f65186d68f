"""``fork`` and ``demux``: several streams of one, which read it together through a buffer."""

from __future__ import annotations

import copy as copying
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from oneflow.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from oneflow.utils.data.datapipes.utils.common import _check_unpickable_fn

__all__ = ["DemultiplexerIterDataPipe", "ForkerIterDataPipe"]


class _Container(IterDataPipe[Any]):
    """The source that several streams read, one pass at a time.

    A stream that begins a second pass ends the pass of all; the others begin theirs anew.
    """

    def __init__(self, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int, name: str) -> None:
        self.main_datapipe, self.num_instances, self.buffer_size = datapipe, num_instances, buffer_size
        if buffer_size < 0:
            warnings.warn(
                f"Unlimited buffer size is set for `{name}`, please be aware of OOM at random places", stacklevel=4
            )
        self._state()

    def _state(self) -> None:
        """The state at the beginning of a pass."""
        self._source: Iterator[Any] | None = None
        self._has_begun, self._has_ended = False, False
        self._is_reading = [False] * self.num_instances

    def reset(self) -> None:
        """Begin a pass."""
        self._state()

    def __getstate__(self) -> Any:
        # What a pass has left stays here.
        left = {
            "_source",
            "_has_begun",
            "_has_ended",
            "_is_reading",
            "_buffer",
            "_first",
            "_positions",
            "_buffers",
            "_n_buffered",
        }
        return self._hooked({name: value for name, value in self.__dict__.items() if name not in left})

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
        self._state()

    def elements(self, child: int) -> Iterator[Any]:
        """The samples of one stream, in this pass."""
        if not self._has_begun:
            self._has_begun, self._is_reading = True, [True] * self.num_instances
        try:
            yield from self._elements(child)
        finally:
            self._is_reading[child] = False

    def _elements(self, child: int) -> Iterator[Any]:
        raise NotImplementedError

    def _next(self) -> Any:
        """The next sample of the source; StopIteration, now and from then on."""
        if self._source is None and not self._has_ended:
            self._source = iter(self.main_datapipe)
        if self._source is None:
            raise StopIteration
        try:
            return next(self._source)
        except StopIteration:
            self._source, self._has_ended = None, True
            raise

    def is_every_instance_exhausted(self) -> bool:
        """Whether all streams have come to the end."""
        return self._has_ended and not any(self._is_reading)

    def get_length_by_instance(self, instance_id: int) -> int:
        """The length of one stream."""
        raise TypeError(f"{type(self).__name__} instance doesn't have valid length")


class _ForkerIterDataPipe(_Container):
    def __init__(self, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int, copy: str | None) -> None:
        ways = {None: None, "shallow": copying.copy, "deep": copying.deepcopy}
        if copy not in ways:
            raise ValueError(f"Unknown copy method `{copy}` requested, choose one of None, `shallow` or `deep`.")
        self.copy_fn = ways[copy]
        super().__init__(datapipe, num_instances, buffer_size, "fork")

    def _state(self) -> None:
        super()._state()
        # The samples that some stream has not read yet, and the number of the first.
        self._buffer: deque[Any] = deque()
        self._first = 0
        self._positions = [0] * self.num_instances

    def _elements(self, child: int) -> Iterator[Any]:
        while True:
            position = self._positions[child]
            if position == self._first + len(self._buffer):
                try:
                    self._buffer.append(self._next())
                except StopIteration:
                    return
            value = self._buffer[position - self._first]
            self._positions[child] += 1
            while self._buffer and min(self._positions) > self._first:
                self._buffer.popleft()
                self._first += 1
            if 0 <= self.buffer_size < len(self._buffer):
                raise BufferError(f"ForkerIterDataPipe buffer overflow,buffer size {self.buffer_size} is insufficient.")
            yield value if self.copy_fn is None else self.copy_fn(value)

    def __len__(self) -> int:
        return len(self.main_datapipe)

    def get_length_by_instance(self, instance_id: int) -> int:
        """The length of the source."""
        return len(self.main_datapipe)


class _DemultiplexerIterDataPipe(_Container):
    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool,
        buffer_size: int,
    ) -> None:
        self.classifier_fn, self.drop_none = classifier_fn, drop_none
        super().__init__(datapipe, num_instances, buffer_size, "demux")

    def _state(self) -> None:
        super()._state()
        self._buffers: list[deque[Any]] = [deque() for _ in range(self.num_instances)]
        self._n_buffered = 0

    def _elements(self, child: int) -> Iterator[Any]:
        while True:
            if self._buffers[child]:
                self._n_buffered -= 1
                yield self._buffers[child].popleft()
                continue
            try:
                value = self._next()
            except StopIteration:
                return
            found = self.classifier_fn(value)
            if found is None and self.drop_none:
                continue
            if found is None or not 0 <= found < self.num_instances:
                raise ValueError(
                    f"Output of the classification fn should be between 0 and {self.num_instances - 1}. {found} is "
                    "returned."
                )
            if found == child:
                yield value
                continue
            self._buffers[found].append(value)
            self._n_buffered += 1
            if 0 <= self.buffer_size < self._n_buffered:
                raise BufferError(
                    f"DemultiplexerIterDataPipe buffer overflow, buffer size {self.buffer_size} is insufficient."
                )


class _ChildDataPipe(IterDataPipe[Any]):
    """One of the streams that read a source together."""

    _is_child_datapipe = True

    def __init__(self, main_datapipe: _Container, instance_id: int) -> None:
        self.main_datapipe, self.instance_id = main_datapipe, instance_id

    def __iter__(self) -> Iterator[Any]:
        return self.main_datapipe.elements(self.instance_id)

    def __len__(self) -> int:
        return self.main_datapipe.get_length_by_instance(self.instance_id)

    def _begin(self) -> int:
        main = self.main_datapipe
        if main._valid_iterator_id is None:
            main._valid_iterator_id = 0
        elif main._valid_iterator_id == self._valid_iterator_id:
            # This stream has had its pass.
            main._valid_iterator_id += 1
            if not main.is_every_instance_exhausted():
                warnings.warn(
                    "Some child DataPipes are not exhausted when __iter__ is called. We are resetting the buffer and "
                    "each child DataPipe will read from the start again.",
                    stacklevel=3,
                )
            main.reset()
        self._valid_iterator_id = main._valid_iterator_id
        return self._valid_iterator_id

    def _check(self, number: int) -> None:
        if not number == self._valid_iterator_id == self.main_datapipe._valid_iterator_id:
            raise RuntimeError(
                "This iterator has been invalidated, because a new iterator has been created from one of the "
                f"ChildDataPipes of {type(self.main_datapipe).__name__}."
            )


def _check_number(num_instances: int) -> None:
    if num_instances < 1:
        raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe[Any]):
    """A list of streams of the same samples (functional form: ``fork``).

    Args:
        datapipe: the source.
        num_instances: the number of streams; one gives the source itself.
        buffer_size: samples that the fastest may be ahead of the slowest; -1 for any number.
        copy: ``None`` gives all the same objects, ``"shallow"`` and ``"deep"`` copies.

    Raises:
        ValueError: no streams, or another way to copy.
        BufferError: when read, a stream is too far ahead.

    Example::

        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> a, b = IterableWrapper(range(3)).fork(2)
        >>> list(a), list(b)
        ([0, 1, 2], [0, 1, 2])
    """

    def __new__(
        cls, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int = 1000, copy: str | None = None
    ) -> Any:
        _check_number(num_instances)
        if num_instances == 1:
            return datapipe
        container = _ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy)
        return [_ChildDataPipe(container, i) for i in range(num_instances)]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe[Any]):
    """A list of streams, each with the samples of its class (functional form: ``demux``).

    Args:
        datapipe: the source.
        num_instances: the number of streams.
        classifier_fn: the number of a sample's stream, or ``None``.
        drop_none: leave out samples without a class.
        buffer_size: samples that wait for their streams to be read; -1 for any number.

    Raises:
        ValueError: no streams; when read, a class that there is not.
        BufferError: when read, too many samples wait.

    Example::

        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> even, odd = IterableWrapper(range(5)).demux(2, (2).__rmod__)
        >>> list(even), list(odd)
        ([0, 2, 4], [1, 3])
    """

    def __new__(
        cls,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        _check_number(num_instances)
        _check_unpickable_fn(classifier_fn)
        container = _DemultiplexerIterDataPipe(datapipe, num_instances, classifier_fn, drop_none, buffer_size)
        return [_ChildDataPipe(container, i) for i in range(num_instances)]
