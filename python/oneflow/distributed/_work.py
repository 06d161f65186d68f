"""Operations in several steps as one work, works as futures, and many small operations as one."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.distributed._groups import _group
from oneflow.futures import Future


class _Steps:
    """Works that are one to the user, and what follows once they are complete."""

    def __init__(
        self, works: list[Any], then: Callable[[], None] | None = None, output: list[Tensor] | None = None
    ) -> None:
        self._works, self._next, self._output, self._lock = works, then, output, threading.Lock()
        # What follows may run on another thread, and writes to tensors that were made in this mode.
        self._is_inference = oneflow.is_inference_mode_enabled()
        self._error: BaseException | None = None

    def wait(self, timeout: datetime.timedelta | float | None = None) -> bool:
        for work in self._works:
            work.wait(timeout)
        self._finish()
        return True

    def _finish(self) -> None:
        with self._lock:
            then, self._next = self._next, None
            if then is None:
                return
            with oneflow.inference_mode(self._is_inference):
                then()

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        return next((e for e in (work.exception() for work in self._works) if e is not None), self._error)

    def result(self) -> list[Tensor]:
        return self._output if self._output is not None else [t for work in self._works for t in work.result()]

    def get_future(self) -> Future:
        return _future_of(self)

    def _then(self, function: Callable[[], None]) -> None:
        left, lock = [len(self._works)], threading.Lock()

        def last() -> None:
            if self.exception() is None:
                try:
                    self._finish()
                    if any(getattr(work, "_is_on_device", bool)() for work in self._works):
                        # Who waits for the future knows no stream of this thread.
                        oneflow.cuda.synchronize()
                except Exception as error:
                    self._error = error
            function()

        def one() -> None:
            with lock:
                left[0] -= 1
                if left[0]:
                    return
            last()

        if not self._works:
            last()
        for work in self._works:
            work._then(one)


def _future_of(work: Any) -> Future:
    """What :meth:`Work.get_future` returns: its value is the list of tensors that the operation writes."""
    future = Future()

    def settle() -> None:
        error = work.exception()
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(work.result())

    work._then(settle)
    return future


class _CoalescingManager:
    """What :func:`_coalescing_manager` yields: the operations of its block as one."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.works: list[Any] = []
        self._reductions: list[tuple[Tensor, str]] = []
        # Operations on a GPU, which go as one.
        self._together: list[tuple[str, Tensor, Tensor | None, dict[str, Any]]] = []

    def append(self, work: Any = None) -> None:
        """Add a work to those that :meth:`wait` waits for."""
        if work is not None:
            self._flush()
            self.works.append(work)

    def wait(self) -> None:
        """Wait for all."""
        works, self.works = self.works, []
        for work in works:
            work.wait()

    def _issue_together(self, what: tuple[Any, ...], options: dict[str, Any]) -> None:
        kind, output, input = (*what, None)[:3]
        self._together.append((kind, output, input, options))

    def _reduce(self, tensor: Tensor, op: str) -> None:
        if tensor.is_cuda:
            self._issue_together(("all_reduce", tensor), {"op": op})
            return
        if self._reductions and (self._reductions[0][0].dtype, self._reductions[0][1]) != (tensor.dtype, op):
            self._flush()
        self._reductions.append((tensor, op))

    def _flush(self) -> None:
        """Issue what has come so far: all-reduces of the CPU as one over all their elements."""
        together, self._together = self._together, []
        if together:
            self.works += self.group.issue_all(together)
        reductions, self._reductions = self._reductions, []
        if not reductions:
            return
        tensors, op = [tensor for tensor, _ in reductions], reductions[0][1]
        if len(tensors) == 1:
            self.works.append(self.group.issue("all_reduce", tensors[0], op=op))
            return
        with oneflow.no_grad():
            flat = oneflow.cat([tensor.reshape(-1) for tensor in tensors])

        def hand_out() -> None:
            with oneflow.no_grad():
                for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
                    tensor.copy_(part.view(tensor.shape))

        self.works.append(_Steps([self.group.issue("all_reduce", flat, op=op)], hand_out, tensors))


_open = threading.local()


def _coalescing(group: Any) -> _CoalescingManager | None:
    """The manager whose block the calling thread is in, for operations of this group."""
    return next((cm for cm in getattr(_open, "managers", ()) if cm.group == group), None)


@contextmanager
def _coalescing_manager(group: Any = None, device: Any = None, async_ops: bool = False) -> Iterator[_CoalescingManager]:
    """Issue the collectives of a block together; neighbouring all-reduces of one dtype go as a single one.

    On a GPU all of them run as one.

    Inside the block collectives return ``None``. They are complete at its end, or with ``async_ops`` once the
    manager that it yields was waited for. ``device`` is accepted.

    Raises:
        ValueError: the calling thread is in such a block of this group already.

    Example::

        >>> def rank():
        ...     a, b = oneflow.ones(1), oneflow.ones(2)
        ...     with oneflow.distributed._coalescing_manager():
        ...         oneflow.distributed.all_reduce(a)
        ...         oneflow.distributed.all_reduce(b)
        ...     return a.tolist(), b.tolist(), oneflow.distributed.wire_calls()["all_reduce"]
        >>> oneflow.testing.run_ranks(2, rank)
        [([2.0], [2.0, 2.0], 1), ([2.0], [2.0, 2.0], 1)]
    """
    found = _group(group, "_coalescing_manager")
    if _coalescing(found) is not None:
        raise ValueError("ProcessGroup has non-empty op list at the start of coalescing")
    manager = _CoalescingManager(found)
    _open.managers = [*getattr(_open, "managers", ()), manager]
    try:
        yield manager
    finally:
        _open.managers = [cm for cm in _open.managers if cm is not manager]
    manager._flush()
    if not async_ops:
        manager.wait()
