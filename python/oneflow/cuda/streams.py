"""Streams, in which a GPU's work is ordered, and events, which order streams."""

from __future__ import annotations

import types
from typing import Any

from oneflow import _oneflow
from oneflow._oneflow import _CudaEvent, _CudaStream
from oneflow._oneflow import device as _device


def _index(device: Any) -> int:
    from oneflow import cuda

    return cuda._index(device)


class Stream:
    """A queue of work of one GPU.

    Args:
        device: the GPU; None is the current one.
        priority: accepted and without effect.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     side = oneflow.cuda.Stream()
        ...     side.wait_stream(oneflow.cuda.current_stream())
        ...     with oneflow.cuda.stream(side):
        ...         x = oneflow.ones(2, device="cuda")
        ...     oneflow.cuda.current_stream().wait_stream(side)
    """

    def __init__(self, device: Any = None, priority: int = 0, *, _raw: _CudaStream | None = None) -> None:
        self._raw = _CudaStream(_index(device)) if _raw is None else _raw

    @property
    def device(self) -> _device:
        """The GPU of the stream."""
        return _device("cuda", self._raw.index)

    @property
    def cuda_stream(self) -> int:
        """The driver's handle."""
        return self._raw.handle

    def synchronize(self) -> None:
        """Wait for the work of the stream."""
        self._raw.synchronize()

    def query(self) -> bool:
        """Return whether all work of the stream is done."""
        return self._raw.query()

    def record_event(self, event: Event | None = None) -> Event:
        """Mark the work issued so far."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Make later work of this stream wait for an event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Make later work of this stream wait for all work issued to another one."""
        self.wait_event(stream.record_event())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return (self._raw.index, self._raw.handle) == (other._raw.index, other._raw.handle)

    def __hash__(self) -> int:
        return hash((self._raw.index, self._raw.handle))

    def __repr__(self) -> str:
        return f"<oneflow.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class Event:
    """A point in a stream's work.

    Args:
        enable_timing: the GPU notes the time, for :meth:`elapsed_time`.
        blocking: accepted; a thread that waits always sleeps or spins as the driver decides.
        interprocess: not provided; True raises NotImplementedError.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     start, end = (oneflow.cuda.Event(enable_timing=True) for _ in range(2))
        ...     start.record()
        ...     x = oneflow.ones(2, device="cuda") * 2
        ...     end.record()
        ...     end.synchronize()
        ...     milliseconds = start.elapsed_time(end)
        >>> oneflow.cuda.Event().query()  # Nothing is before it.
        True
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if interprocess:
            raise NotImplementedError("cuda.Event(): sharing between processes is not implemented")
        self._raw: _CudaEvent | None = None
        self._timed = bool(enable_timing)

    def record(self, stream: Stream | None = None) -> None:
        """Mark the work issued so far to a stream (None: the current one)."""
        self._raw = (current_stream() if stream is None else stream)._raw.record(self._timed)

    def wait(self, stream: Stream | None = None) -> None:
        """Make later work of a stream (None: the current one) wait for this event."""
        if self._raw is not None:
            (current_stream() if stream is None else stream)._raw.wait(self._raw)

    def query(self) -> bool:
        """Return whether the work before the event is done. An error of that work is raised here."""
        return self._raw is None or self._raw.query()

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds between this event and a later one, of work that is done.

        Raises:
            ValueError: one of them was made without ``enable_timing=True``.
            RuntimeError: one of them was not recorded, or its work is not done.
        """
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._raw is None or end_event._raw is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return self._raw.milliseconds_to(end_event._raw)

    def synchronize(self) -> None:
        """Wait for the work before the event."""
        if self._raw is not None:
            self._raw.synchronize()


def current_stream(device: Any = None) -> Stream:
    """Return the stream the calling thread issues to.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     oneflow.cuda.current_stream().synchronize()
    """
    return Stream(_raw=_oneflow._cuda_stream(_index(device), True))


def default_stream(device: Any = None) -> Stream:
    """Return the GPU's own stream, which threads use that chose none.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     oneflow.cuda.set_stream(oneflow.cuda.default_stream())
    """
    return Stream(_raw=_oneflow._cuda_stream(_index(device), False))


def set_stream(stream: Stream) -> None:
    """Make a stream the one the calling thread issues to.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     oneflow.cuda.set_stream(oneflow.cuda.default_stream())
    """
    _oneflow._cuda_set_stream(stream._raw)


class StreamContext:
    """Context manager that issues the calling thread's work to a stream. None changes nothing.

    Example::

        >>> with oneflow.cuda.StreamContext(None):
        ...     x = oneflow.ones(2)
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before: Stream | None = None

    def __enter__(self) -> None:
        if self.stream is not None:
            self._before = current_stream(self.stream.device)
            set_stream(self.stream)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        if self._before is not None:
            set_stream(self._before)
            self._before = None


def stream(stream: Stream | None) -> StreamContext:
    """Return a context manager that issues the calling thread's work to a stream.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     with oneflow.cuda.stream(oneflow.cuda.Stream()) as _:
        ...         x = oneflow.ones(2, device="cuda")
    """
    return StreamContext(stream)
