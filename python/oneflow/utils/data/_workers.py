"""Worker processes that load batches ahead. Batches come back in order, errors as exceptions, dead workers by name."""

from __future__ import annotations

import collections
import multiprocessing
import pickle
import random
import select
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import oneflow
from oneflow.utils.data import _shared


@dataclass
class WorkerInfo:
    """The identity of a worker process: ``id`` of ``num_workers``, its ``seed`` and its copy of the data set.

    Example::

        >>> oneflow.utils.data.get_worker_info() is None
        True
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return the description of this worker process, None in the main process.

    Example::

        >>> oneflow.utils.data.get_worker_info() is None
        True
    """
    return _worker_info


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Four numbers that seed NumPy in a worker process, the same as PyTorch draws."""
    import numpy

    words = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return [int(number) for number in numpy.random.SeedSequence(words).generate_state(4)]


class _KeyErrorMessage(str):
    """A text that KeyError prints unquoted."""

    def __repr__(self) -> str:
        return str(self)


class Failure:
    """An exception on its way back from a worker, with the worker's traceback as text."""

    def __init__(self, worker: int, error: BaseException) -> None:
        self.worker = worker
        self.kind: Any = type(error)
        self.text = "".join(traceback.format_exception(error))
        try:
            pickle.dumps(self.kind)
        except Exception:
            self.kind = RuntimeError

    def error_again(self) -> BaseException:
        """An exception of the same class with the worker's traceback in its text."""
        message = f"Caught {self.kind.__name__} in DataLoader worker process {self.worker}.\nOriginal {self.text}"
        if self.kind is KeyError:
            return KeyError(_KeyErrorMessage(message))
        try:
            error: BaseException = self.kind(message)
        except Exception:
            error = RuntimeError(message)
        return error


class Raised:
    """What stands for a batch that failed: the pass goes on after its error is raised."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class End:
    """A worker's stream has no more batches."""


END = End()
# Returned by ``WorkerPool.map`` before the first batch.
PRIMED = object()


class Fetcher:
    """Execute a worker's task: ``start`` begins a pass over the data, ``fetch`` loads one batch or returns END."""

    dataset: Any = None

    def start(self) -> None:
        """Begin a pass."""

    def fetch(self, index: Any) -> Any:
        """Load the batch at ``index``."""
        raise NotImplementedError


def _work(
    info: WorkerInfo, fetcher: Fetcher, init: Any, channel: socket.socket, others: list[socket.socket], engine: str
) -> None:
    global _worker_info
    # A fork inherits the loader's file descriptors; while they are open nobody notices that the loader is gone.
    for other in others:
        other.close()
    # The loader handles Ctrl-C and ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker_info = info
    oneflow.set_num_threads(1)
    oneflow.random.use(engine)
    random.seed(info.seed)
    oneflow.manual_seed(info.seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(info.seed % 2**32)
    sender = _shared.Sender()
    _shared.set_sender(sender)
    failure = None
    if init is not None:
        try:
            init(info.id)
        except Exception as error:
            failure = Failure(info.id, error)
    if failure is None:
        try:
            fetcher.start()
        except Exception as error:
            failure = Failure(info.id, error)
    try:
        while True:
            _, body, _ = _shared.receive_bytes(channel)
            task = pickle.loads(body)
            if task is None:
                return
            number, index, freed, restart = task
            sender.give_back(freed)
            try:
                if restart:
                    fetcher.start()
                message = (number, failure or fetcher.fetch(index))
            except Exception as error:
                message = (number, Failure(info.id, error))
            try:
                sender.send(channel, message)
            except (pickle.PicklingError, TypeError, AttributeError) as error:
                sender.send(channel, (number, Failure(info.id, error)))
    except (EOFError, ConnectionError, KeyboardInterrupt):
        return


class _Channel(socket.socket):
    """A socket that closes without a warning: the collector may reach it before the pool that would close it."""

    def __del__(self) -> None:
        self.close()


class _Worker:
    """A process, the socket to it and its shared memory."""

    def __init__(
        self, context: Any, info: WorkerInfo, fetcher: Fetcher, init: Any, others: list[socket.socket]
    ) -> None:
        ours, theirs = socket.socketpair()
        self.channel = _Channel(fileno=ours.detach())
        self.receiver = _shared.Receiver()
        inherited = [*others, self.channel] if context.get_start_method() == "fork" else []
        args = (info, fetcher, init, theirs, inherited, oneflow.default_generator.engine)
        self.process = context.Process(target=_work, args=args, daemon=True)
        self.process.start()
        theirs.close()
        self.is_done = False

    def raise_dead(self) -> None:
        """Say how the process ended."""
        self.process.join(timeout=5)
        code = self.process.exitcode
        if code is not None and code < 0:
            try:
                name = signal.strsignal(-code) or signal.Signals(-code).name
            except ValueError:
                name = f"signal {-code}"
            raise RuntimeError(f"DataLoader worker (pid {self.process.pid}) is killed by signal: {name}. ")
        raise RuntimeError(f"DataLoader worker (pid(s) {self.process.pid}) exited unexpectedly with exit code {code}")


class WorkerPool:
    """``n_workers`` processes that run a fetcher.

    Args:
        n_workers: how many.
        fetcher: what each runs a copy of.
        init: called with its number in every worker.
        timeout: seconds to wait for a result, 0 for ever.
        context: start method or multiprocessing context; the platform's default otherwise.
        base_seed: worker ``i`` seeds its generators with ``base_seed + i``.
    """

    def __init__(
        self,
        n_workers: int,
        fetcher: Fetcher,
        init: Callable[[int], None] | None,
        timeout: float,
        context: Any,
        base_seed: int,
    ) -> None:
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        self.timeout = timeout
        self.workers: list[_Worker] = []
        self.selector = selectors.DefaultSelector()
        self.is_fresh = True
        self.is_kept = False
        try:
            for i in range(n_workers):
                info = WorkerInfo(i, n_workers, base_seed + i, fetcher.dataset)
                worker = _Worker(context, info, fetcher, init, [w.channel for w in self.workers])
                self.workers.append(worker)
                self.selector.register(worker.channel, selectors.EVENT_READ, worker)
        except BaseException:
            self.close()
            raise

    def map(self, indices: Iterator[Any], n_ahead: int, in_order: bool = True) -> Iterator[Any]:
        """Load all ``indices``, at most ``n_ahead`` of them beyond those consumed. The first value, PRIMED, says that
        the workers have their first tasks.
        """
        waiting: collections.deque[int] = collections.deque()
        arrived: dict[int, Any] = {}
        owner: dict[int, _Worker] = {}
        n_sent, turn, is_primed = 0, 0, False
        restart = set() if self.is_fresh else set(self.workers)
        self.is_fresh = False
        for worker in self.workers:
            worker.is_done = False
        try:
            while True:
                while len(waiting) < n_ahead:
                    live = [w for w in self.workers if not w.is_done]
                    if not live or (index := next(indices, END)) is END:
                        break
                    # Round robin over those that still have data.
                    while self.workers[turn % len(self.workers)].is_done:
                        turn += 1
                    worker = self.workers[turn % len(self.workers)]
                    turn += 1
                    task = (n_sent, index, worker.receiver.take_returned(), worker in restart)
                    self._send(worker, task, arrived)
                    restart.discard(worker)
                    owner[n_sent] = worker
                    waiting.append(n_sent)
                    n_sent += 1
                if not is_primed:
                    is_primed = True
                    yield PRIMED
                if not waiting:
                    return
                number = waiting[0]
                deadline = time.monotonic() + self.timeout if self.timeout else None
                while number not in arrived:
                    got, value = self._receive(deadline)
                    arrived[got] = value
                    if not in_order and got != number:
                        waiting.remove(got)
                        waiting.appendleft(got)
                        number = got
                waiting.popleft()
                value = arrived.pop(number)
                worker = owner.pop(number)
                if isinstance(value, End):
                    worker.is_done = True
                    continue
                if isinstance(value, Failure):
                    value = Raised(value.error_again())
                yield value
                del value
        finally:
            # A next iteration must not meet results of this one.
            missing = len(waiting) - len(arrived) if self.is_kept else 0
            while missing > 0 and not sys.is_finalizing():
                try:
                    self._receive(time.monotonic() + 5)
                except (RuntimeError, OSError, ValueError):
                    # The last: the pool was closed first.
                    break
                missing -= 1

    def _send(self, worker: _Worker, task: Any, arrived: dict[int, Any]) -> None:
        """Send a task. A worker that is waiting to write its result reads no tasks, so results are taken meanwhile."""
        data = memoryview(_shared.message(b"", pickle.dumps(task, protocol=5)))
        while data:
            try:
                data = data[worker.channel.send(data, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                select.select([w.channel for w in self.workers], [worker.channel], [])
                if self.selector.select(0):
                    number, value = self._receive(None)
                    arrived[number] = value
            except OSError:
                worker.raise_dead()

    def _receive(self, deadline: float | None) -> tuple[int, Any]:
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = self.selector.select(left)
            if not ready:
                if deadline is not None and time.monotonic() >= deadline:
                    raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds")
                continue
            worker = ready[0][0].data
            try:
                result: tuple[int, Any] = worker.receiver.receive(worker.channel)
            except (EOFError, ConnectionError):
                worker.raise_dead()
                raise
            return result

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            try:
                _shared.send_bytes(worker.channel, b"", pickle.dumps(None), [])
            except OSError:
                pass
            # A worker that is writing a batch nobody will read must not wait for its end.
            worker.channel.close()
        deadline = time.monotonic() + 1.0
        for worker in self.workers:
            worker.process.join(timeout=max(0.0, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.process.terminate()
                worker.process.join(timeout=5)
        self.workers = []
        self.selector.close()

    def __del__(self) -> None:
        if self.__dict__.get("workers"):
            self.close()
