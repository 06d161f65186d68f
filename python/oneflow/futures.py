"""Results that come later, under the names of ``torch.futures``: a value that somebody sets and others wait for."""

from __future__ import annotations

import logging
import threading
import types
from collections.abc import Callable
from typing import Any

__all__ = ["Future", "collect_all", "wait_all"]

log = logging.getLogger(__name__)
_CALLBACK_FAILED = "Got the following error when running the callback:"


class Future:
    """A value that somebody sets, from any thread.

    Example::

        >>> future = oneflow.futures.Future()
        >>> future.set_result(3)
        >>> future.then(lambda f: f.wait() + 1).wait()
        4
    """

    # Annotations name the class of the value.
    __class_getitem__: Any = classmethod(types.GenericAlias)

    def __init__(self, *, devices: Any = None) -> None:
        self._settled = threading.Condition()
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []

    def done(self) -> bool:
        """Return whether it has a value or an exception."""
        return self._done

    def wait(self) -> Any:
        """The value, when it is there; its exception is raised."""
        with self._settled:
            self._settled.wait_for(lambda: self._done)
        if self._error is not None:
            raise self._error
        return self._value

    def value(self) -> Any:
        """The value that is there.

        Raises:
            RuntimeError: there is none yet.
        """
        if not self._done:
            raise RuntimeError("Future has no value yet: wait for it")
        return self.wait()

    def _settle(self, value: Any, error: BaseException | None) -> None:
        with self._settled:
            if self._done:
                raise RuntimeError("Future can only be marked completed once")
            self._value, self._error, self._done = value, error, True
            callbacks = self._callbacks
            self._settled.notify_all()
        for callback in callbacks:
            self._call(callback)

    def _call(self, callback: Callable[[Future], Any]) -> None:
        # An error in a callback is not the setter's fault, and the callbacks after it run all the same.
        try:
            callback(self)
        except Exception:
            log.exception(_CALLBACK_FAILED)

    def __reduce__(self) -> Any:
        raise RuntimeError("Can not pickle torch.futures.Future")

    def set_result(self, result: Any) -> None:
        """Give it its value.

        Raises:
            RuntimeError: it has one.
        """
        self._settle(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Give it an exception in the place of a value."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._settle(None, result)

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call ``callback(self)`` when it is done, or now if it is. An error in it is logged and not raised."""
        with self._settled:
            if not self._done:
                self._callbacks.append(callback)
                return
        self._call(callback)

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future of what ``callback(self)`` returns when this one is done; of a RuntimeError if it raises."""
        following = Future()

        def call(done: Future) -> None:
            try:
                value = callback(done)
            except Exception as e:
                error = RuntimeError(f"{_CALLBACK_FAILED} {type(e).__name__}: {e}")
                error.__cause__ = e
                following.set_exception(error)
            else:
                following.set_result(value)

        self.add_done_callback(call)
        return following


def collect_all(futures: list[Future]) -> Future:
    """A future of the list, done when all of them are.

    Example::

        >>> oneflow.futures.collect_all([]).done()
        True
    """
    if any(future is None for future in futures):
        raise RuntimeError("Future can't be None")
    together = Future()
    left = [len(futures)]
    lock = threading.Lock()

    def one(_: Future) -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            together.set_result(futures)

    if not futures:
        together.set_result(futures)
    for future in futures:
        future.add_done_callback(one)
    return together


def wait_all(futures: list[Future]) -> list[Any]:
    """The values of all of them; the first exception is raised.

    Example::

        >>> future = oneflow.futures.Future()
        >>> future.set_result(3)
        >>> oneflow.futures.wait_all([future])
        [3]
    """
    return [future.wait() for future in collect_all(futures).wait()]
