"""Threads that run calls: started as there is work for them, and no reason for the process to stay."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable
from typing import Any


class Pool:
    """Up to ``n`` daemon threads, which run functions in the order of :meth:`submit`."""

    def __init__(self, n: int, name: str) -> None:
        self._n, self._name = n, name
        self._tasks: queue.SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def submit(self, function: Callable[..., Any], *args: Any) -> None:
        """Run a function that does not raise."""
        self._tasks.put((function, args))
        if self._idle.acquire(blocking=False):
            return
        with self._lock:
            if len(self._threads) < self._n:
                thread = threading.Thread(target=self._work, name=f"{self._name} {len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def close(self) -> None:
        """End the threads when they have nothing more to do."""
        for _ in self._threads:
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            function, args = task
            function(*args)
            # What it has kept must not live until the next task.
            del task, function, args
            self._idle.release()


class Deadlines:
    """A daemon thread that calls functions at their times."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._waiting: dict[Any, tuple[float, Callable[[], Any]]] = {}
        self._thread: threading.Thread | None = None
        self._wakes_at = math.inf
        self._is_closed = False

    def set(self, key: Any, at: float, function: Callable[[], Any]) -> None:
        """Call ``function`` at this time of ``time.monotonic``, unless it is taken back."""
        with self._changed:
            self._waiting[key] = at, function
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name=self._name, daemon=True)
                self._thread.start()
            if at < self._wakes_at:
                self._changed.notify()

    def take_back(self, key: Any) -> None:
        """Forget it."""
        with self._changed:
            self._waiting.pop(key, None)

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _watch(self) -> None:
        while True:
            with self._changed:
                if self._is_closed:
                    return
                now = time.monotonic()
                due = [key for key, (at, _) in self._waiting.items() if at <= now]
                functions = [self._waiting.pop(key)[1] for key in due]
                if not functions:
                    self._wakes_at = min((at for at, _ in self._waiting.values()), default=math.inf)
                    self._changed.wait(None if math.isinf(self._wakes_at) else self._wakes_at - now)
            for function in functions:
                function()
