"""Loaders that feed a graph: another thread reads batches ahead while a step runs, as many as fit the registers."""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from oneflow import Tensor
from oneflow._trace.structure import flatten

END = object()

_open: weakref.WeakSet[Any] = weakref.WeakSet()


@contextlib.contextmanager
def fed(program: Any, source: Any, inputs: list[Tensor], prefetch: int | None) -> Iterator[Any]:
    """A program that reads a source. It is closed when the source ends, and before the interpreter is."""
    with _switching if isinstance(source, Batches) else contextlib.nullcontext():
        sizes = None if program.fitting is None else program.compiled.sizes_of(inputs)
        feed = program.compiled.feed(source, list(range(len(inputs))), prefetch or _depth(inputs), sizes)
        _open.add(feed)
        try:
            yield feed
        finally:
            feed.close()


class _Switching:
    """Gives threads the interpreter sooner, while a loader in Python runs in parallel to steps.

    A step's thread wants it at the end of each step. A loader at work then keeps it for the switch interval, which is
    as many a step, however many batches are ready.
    """

    _SECONDS = 1e-4

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, self._SECONDS))
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                sys.setswitchinterval(self._before)


_switching = _Switching()


def _depth(tensors: list[Tensor]) -> int:
    """How many batches like this one wait for their step: some, as loaders do not take the same time for each."""
    n_bytes = sum(t.numel() * t.element_size() for t in tensors)
    return 2 if n_bytes > 64 << 20 else 4


@atexit.register
def _close() -> None:
    for feed in list(_open):
        feed.close(1.0)


def arguments(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A batch as ``build`` takes it: the parts of a list or tuple, the entries of a dict by name, or one value."""
    if isinstance(batch, dict):
        return (), dict(batch)
    if isinstance(batch, (list, tuple)):
        return tuple(batch), {}
    return (batch,), {}


def metas(tensors: list[Tensor]) -> list[Any]:
    return [(tuple(t.shape), t.dtype, t.device) for t in tensors]


class Batches:
    """Return the next batch to the runtime's thread; None at the end, or before a batch of another shape."""

    def __init__(
        self, first: Any, rest: Iterator[Any], prepare: Callable[[list[Tensor]], list[Any]] | None = None
    ) -> None:
        self._rest, self._prepare = rest, prepare
        self._lock = threading.Lock()
        tensors: list[Tensor] = []
        self._structure = flatten(arguments(first), tensors, "input")
        self._metas = metas(tensors)
        self._next = first
        # Given out, and not run yet: each batch, and what its lookups in stores are about.
        self.waiting: deque[tuple[Any, list[Any] | None]] = deque()
        # A batch that does not fit, or the end.
        self.odd: Any = END
        self.error: BaseException | None = None

    def __call__(self) -> list[Tensor] | None:
        try:
            return self._read()
        except BaseException as error:
            self.error = error
            raise

    def _read(self) -> list[Tensor] | None:
        batch, self._next = self._next, END
        if batch is END:
            batch = next(self._rest, END)
        if batch is END:
            return None
        tensors: list[Tensor] = []
        if flatten(arguments(batch), tensors, "input") != self._structure or metas(tensors) != self._metas:
            self.odd = batch
            return None
        tensors = [t.detach().contiguous() for t in tensors]
        prepared = None if self._prepare is None else self._prepare(tensors)
        with self._lock:
            self.waiting.append((batch, prepared))
        return tensors

    def prepared(self) -> list[Any]:
        """What the lookups of the oldest batch in flight are about."""
        with self._lock:
            return self.waiting[0][1] or []

    def ran(self) -> None:
        """Note that the oldest batch in flight has been run."""
        with self._lock:
            self.waiting.popleft()
