"""Worker processes that load batches ahead. Batches come back in order, errors as exceptions, dead workers by name."""

from __future__ import annotations

import collections
import multiprocessing
import queue
import random
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import oneflow


@dataclass
class WorkerInfo:
    """Who a worker process is: ``id`` of ``num_workers``, its ``seed`` and its copy of the data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return the description of this worker process, None in the main process."""
    return _worker_info


class _Failure:
    """An exception on its way back from a worker, with the worker's traceback as text."""

    def __init__(self, worker: int, error: BaseException) -> None:
        self.worker = worker
        self.kind = type(error)
        self.text = "".join(traceback.format_exception(error))

    def raise_again(self) -> None:
        message = f"Caught {self.kind.__name__} in DataLoader worker process {self.worker}.\nOriginal {self.text}"
        try:
            error = self.kind(message)
        except TypeError:
            error = RuntimeError(message)
        raise error


def _work(
    info: WorkerInfo, load: Callable[..., Any], fixed: tuple[Any, ...], init: Any, tasks: Any, results: Any
) -> None:
    global _worker_info
    _worker_info = info
    oneflow.set_num_threads(1)
    random.seed(info.seed)
    oneflow.manual_seed(info.seed)
    failure = None
    if init is not None:
        try:
            init(info.id)
        except Exception as error:
            failure = _Failure(info.id, error)
    while (task := tasks.get()) is not None:
        number, index = task
        try:
            results.put((number, failure or load(*fixed, index)))
        except Exception as error:
            results.put((number, _Failure(info.id, error)))


class WorkerPool:
    """``n_workers`` processes that call ``load(*fixed, index)``.

    Args:
        n_workers: how many.
        load, fixed: what to call; ``fixed[0]`` is the data set.
        init: called with its number in every worker.
        timeout: seconds to wait for a result, 0 for ever.
        context: start method or multiprocessing context.
    """

    def __init__(
        self,
        n_workers: int,
        load: Callable[..., Any],
        fixed: tuple[Any, ...],
        init: Callable[[int], None] | None,
        timeout: float,
        context: Any = None,
    ) -> None:
        if context is None or isinstance(context, str):
            # Spawned, not forked: a fork would copy the compiled core's thread pool without its threads.
            context = multiprocessing.get_context(context or "spawn")
        self.timeout = timeout
        self.results = context.Queue()
        self.tasks = [context.Queue() for _ in range(n_workers)]
        seed = int(oneflow.randint(0, 2**31, ()).item())
        self.processes = []
        for i in range(n_workers):
            info = WorkerInfo(i, n_workers, seed + i, fixed[0])
            args = (info, load, fixed, init, self.tasks[i], self.results)
            process = context.Process(target=_work, args=args, daemon=True)
            process.start()
            self.processes.append(process)

    def map(self, indices: Iterator[Any], n_ahead: int) -> Iterator[Any]:
        """Load all ``indices``, at most ``n_ahead`` of them beyond what was taken, in order."""
        waiting: collections.deque[int] = collections.deque()
        arrived: dict[int, Any] = {}
        n_sent = 0
        try:
            while True:
                while len(waiting) < n_ahead and (index := next(indices, _END)) is not _END:
                    self.tasks[n_sent % len(self.tasks)].put((n_sent, index))
                    waiting.append(n_sent)
                    n_sent += 1
                if not waiting:
                    return
                number = waiting[0]
                while number not in arrived:
                    got, value = self._receive()
                    arrived[got] = value
                waiting.popleft()
                value = arrived.pop(number)
                if isinstance(value, _Failure):
                    value.raise_again()
                yield value
        finally:
            # A next iteration must not meet results of this one.
            for _ in range(len(waiting) - len(arrived)):
                self._receive()

    def _receive(self) -> tuple[int, Any]:
        deadline = time.monotonic() + self.timeout if self.timeout else None
        while True:
            try:
                return self.results.get(timeout=1.0 if deadline is None else min(1.0, self.timeout))
            except queue.Empty:
                dead = [process for process in self.processes if not process.is_alive()]
                if dead:
                    raise RuntimeError(
                        f"DataLoader worker (pid(s) {', '.join(str(process.pid) for process in dead)}) "
                        "exited unexpectedly"
                    ) from None
                if deadline is not None and time.monotonic() > deadline:
                    raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds") from None

    def close(self) -> None:
        """End all workers."""
        for tasks in self.tasks:
            tasks.put(None)
        for process in self.processes:
            process.join(timeout=5)
            if process.is_alive():
                process.terminate()


_END = object()
