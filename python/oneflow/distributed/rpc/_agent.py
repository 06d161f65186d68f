"""A worker: sends calls and their results over a group, runs those of others, and knows what it waits for.

All messages are two sends of one tag each between two ranks of a group of :mod:`oneflow.distributed`: a header of fixed
size and the bytes that it tells of. Encryption, proofs of who somebody is and news of ranks that die are the group's.
One
thread takes what comes; calls of others run on a pool, and results on another, where callbacks of futures may call
again.
"""

from __future__ import annotations

import itertools
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import oneflow
from oneflow import Tensor
from oneflow.distributed.autograd import _contexts
from oneflow.distributed.rpc import _state, _wire, functions
from oneflow.distributed.rpc._pool import Deadlines, Pool
from oneflow.distributed.rpc._references import Entry, RRef, Table
from oneflow.distributed.rpc._wire import Header, Kind
from oneflow.distributed.rpc.constants import UNSET_RPC_TIMEOUT
from oneflow.futures import Future

_HEADERS, _BODIES = 1, 2
# A worker waits for calls as long as it lives.
_FOREVER = 10 * 365 * 86400.0
_RANK_BITS = 48


class WorkerInfo:
    """The name and the number of a worker.

    Example::

        >>> from oneflow.distributed.rpc import WorkerInfo
        >>> WorkerInfo("worker1", 1)
        WorkerInfo(id=1, name=worker1)
    """

    def __init__(self, name: str, worker_id: int) -> None:
        self._name, self._id = name, worker_id

    @property
    def name(self) -> str:
        """The name that :func:`~oneflow.distributed.rpc.init_rpc` was given."""
        return self._name

    @property
    def id(self) -> int:
        """The rank."""
        return self._id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkerInfo) and (self._name, self._id) == (other._name, other._id)

    def __hash__(self) -> int:
        return hash((self._name, self._id))

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self._id}, name={self._name})"


class _Call(NamedTuple):
    future: Future
    to: int


class Agent:
    """The worker of this process.

    Args:
        group: all workers.
        names: theirs, by rank.
        device_maps: by rank, what each was given.
        timeout: of a call that says nothing itself, in seconds.
        n_threads: that run calls of others.
    """

    def __init__(
        self, group: Any, names: list[str], device_maps: list[dict[str, dict[str, str]]], timeout: float, n_threads: int
    ) -> None:
        self.rank, self.timeout = group.rank(), timeout
        self.workers = [WorkerInfo(name, rank) for rank, name in enumerate(names)]
        self.table = Table()
        self._group, self._by_name = group, {worker.name: worker for worker in self.workers}
        self._places = [
            _places(self.workers[self.rank].name, device_maps[self.rank], w, device_maps) for w in self.workers
        ]
        self._numbers, self._calls = itertools.count(1), dict[int, _Call]()
        self._order = [threading.Lock() for _ in names]
        self._events: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self._requests, self._results = Pool(n_threads, "rpc request"), Pool(n_threads, "rpc result")
        self._deadlines = Deadlines("rpc deadlines")
        # What is under way here, and the messages that have left and come: what `join` looks at.
        self._idle = threading.Condition()
        self._n_busy, self._n_sent, self._n_received = 0, 0, 0
        self._failure: str | None = None
        self.is_closed = False
        # Gatherings that this worker has taken part in.
        self.n_gathered = 0
        self._listener = threading.Thread(target=self._listen, name="rpc listener", daemon=True)

    def start(self) -> None:
        """Begin to take calls."""
        self._listener.start()
        if len(self.workers) > 1:
            self._next_header()

    def worker(self, to: Any) -> WorkerInfo:
        """The worker of a name, a rank, or what describes one.

        Raises:
            RuntimeError: there is no such worker.
            ValueError: it is something else.
        """
        if isinstance(to, WorkerInfo):
            return to
        if isinstance(to, str):
            found = self._by_name.get(to)
        elif isinstance(to, int):
            found = self.workers[to] if 0 <= to < len(self.workers) else None
        else:
            raise ValueError(f"Cannot get WorkerInfo from name {to}")
        if found is None:
            raise RuntimeError(f"Unknown destination worker {to}; there are {', '.join(self._by_name)}")
        return found

    def number(self) -> int:
        """A number that no other call, reference or holder of any worker has."""
        return self.rank << _RANK_BITS | next(self._numbers)

    # Calls.

    def call(
        self,
        to: WorkerInfo,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        timeout: float = UNSET_RPC_TIMEOUT,
    ) -> Future:
        """Have a worker run a function; a future of what it returns."""
        seconds = self.timeout if timeout == UNSET_RPC_TIMEOUT else float(timeout)
        if seconds < 0:
            raise ValueError(f"rpc: timeout must be positive, 0 for no limit, or -1 for the default, got {timeout}")
        number, future = self.number(), Future()
        self._calls[number] = _Call(future, to.id)
        if seconds:
            late = f"RPC ran for more than set timeout ({int(1000 * seconds)} ms) and will now be marked with an error"
            self._deadlines.set(number, time.monotonic() + seconds, lambda: self._fail_call(number, late))
        try:
            self._send(to.id, Kind.CALL, number, (function, args, kwargs))
        except BaseException:
            self._deadlines.take_back(number)
            self._calls.pop(number, None)
            raise
        if self._failure is not None:
            self._fail_call(number, self._failure)
        return future

    def remote(
        self,
        to: WorkerInfo,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        timeout: float = UNSET_RPC_TIMEOUT,
    ) -> RRef[Any]:
        """Have a worker run a function and keep what it returns; a reference to that."""
        number, holder = self.number(), self.number()
        what = (number, function, args, kwargs)
        if to.id == self.rank:
            entry = self.table.hold(number, holder)
            created = self.call(to, _create, what, {}, timeout)
            created.add_done_callback(lambda done: self._created_here(entry, number, holder, done))
            return RRef._of(self, self.rank, number, None, entry)
        # Before the call, which another thread of the owner may run later than what others say of the reference.
        self._post(to.id, Header(Kind.HOLD, number, 0, holder))
        try:
            created = self.call(to, _create, what, {}, timeout)
        except BaseException:
            self._drop(to.id, number, holder)
            raise
        created.add_done_callback(lambda done: self._created_there(to, number, done))
        return RRef._of(self, to.id, number, holder, None, created)

    def _created_here(self, entry: Entry, number: int, holder: int, created: Future) -> None:
        if created._error is not None and not entry.value.done():
            entry.value.set_exception(created._error)
        # The reference itself keeps it from here on.
        self.table.drop(number, holder)

    def _created_there(self, to: WorkerInfo, number: int, created: Future) -> None:
        """Let the owner know of a call that it could not read: others may ask it for the value."""
        if created._error is not None and self._failure is None and not self.is_closed:
            self.call(to, _fail, (number, str(created._error)), {})

    def _fail_call(self, number: int, why: str) -> None:
        call = self._calls.pop(number, None)
        if call is not None:
            self._results.submit(call.future.set_exception, RuntimeError(why))
            self._settled(0)

    # Sending.

    def _send(self, to: int, kind: Kind, number: int, value: Any) -> None:
        if self._failure is not None:
            raise RuntimeError(self._failure)
        context = _contexts.current()
        held: list[tuple[int, int, int]] = []

        def hold(reference: RRef[Any]) -> tuple[int, int, int]:
            held.append(self._hold(reference))
            return held[-1]

        try:
            packed = _wire.pack(value, context is not None and oneflow.is_grad_enabled(), hold, self._placer(to))
        except BaseException:
            for owner, reference, holder in held:
                self._drop(owner, reference, holder)
            raise
        message, clock = context.sending(to, packed.tensors) if context is not None else (0, 0)
        header = Header(kind, number, len(packed.data), 0 if context is None else context.number, message, clock)
        self._post(to, header, packed.data)

    def _post(self, to: int, header: Header, data: bytearray | None = None) -> None:
        with self._idle:
            self._n_sent += 1
        if to == self.rank:
            self._events.put((self._take, to, header, None if data is None else bytes(data)))
            return
        first = oneflow.frombuffer(header.pack(), dtype=oneflow.uint8)
        with self._order[to]:
            work = self._group.issue("send", first, peer=to, tag=_HEADERS, timeout=_FOREVER)
            if data is not None:
                second = oneflow.frombuffer(data, dtype=oneflow.uint8)
                work = self._group.issue("send", second, peer=to, tag=_BODIES, timeout=_FOREVER)
        if header.kind is Kind.CALL:
            work._then(lambda: self._events.put((self._sent, header.number, work)))

    def _sent(self, number: int, work: Any) -> None:
        if (error := work.exception()) is not None:
            self._fail_call(number, str(error))

    def _placer(self, to: int) -> Callable[[Tensor], str]:
        places = self._places[to]

        def place(tensor: Tensor) -> str:
            name = str(tensor.device)
            if tensor.device.type == "cpu" or to == self.rank:
                return name
            if name not in places:
                raise RuntimeError(
                    f"rpc: a tensor on {name} cannot be sent to {self.workers[to].name}: move it to the CPU, or give "
                    "the place with TensorPipeRpcBackendOptions.set_device_map"
                )
            return places[name]

        return place

    # References.

    def _hold(self, reference: RRef[Any]) -> tuple[int, int, int]:
        """Make whoever gets this a holder: owner, number of the reference, number of the holder."""
        if reference._agent is not self:
            raise RuntimeError("rpc: this reference is of workers that have been shut down")
        holder, owner = self.number(), reference._owner.id
        if reference._number is None:
            reference._number = self.number()
        if reference._entry is None:
            self._post(owner, Header(Kind.HOLD, reference._number, 0, holder))
        else:
            self.table.entry(reference._number, reference._entry)
            self.table.hold(reference._number, holder)
        return owner, reference._number, holder

    def _take_reference(self, what: tuple[int, int, int]) -> RRef[Any]:
        owner, number, holder = what
        if owner != self.rank:
            return RRef._of(self, owner, number, holder, None)
        entry = self.table.entry(number)
        self.table.drop(number, holder)
        return RRef._of(self, owner, number, None, entry)

    def _drop(self, owner: int, number: int, holder: int) -> None:
        if owner == self.rank:
            self.table.drop(number, holder)
        elif self._failure is None and not self.is_closed:
            self._post(owner, Header(Kind.DROP, number, 0, holder))

    def drop_later(self, owner: int, number: int, holder: int) -> None:
        """Give up a hold, from wherever a reference ends."""
        if not self.is_closed:
            self._events.put((self._drop, owner, number, holder))

    # What comes.

    def _next_header(self) -> None:
        buffer = oneflow.empty(_wire.HEADER_BYTES, dtype=oneflow.uint8, device="cpu")
        work = self._group.issue("recv", buffer, peer=-1, tag=_HEADERS, timeout=_FOREVER)
        work._then(lambda: self._events.put((self._on_header, work, buffer)))

    def _listen(self) -> None:
        while (event := self._events.get()) is not None:
            function, *args = event
            try:
                function(*args)
            except Exception as error:
                if not self.is_closed:
                    self._break(f"{type(error).__name__}: {error}")
            del event, function, args

    def _on_header(self, work: Any, buffer: Tensor) -> None:
        if (error := work.exception()) is not None:
            self._break(str(error))
            return
        sender = work.source_rank()
        try:
            header = Header.unpack(buffer.numpy().tobytes())
        except ValueError as fault:
            raise RuntimeError(f"{self.workers[sender].name} has sent what is no message: {fault}") from None
        if header.n_bytes == 0:
            self._next_header()
            self._take(sender, header, None)
            return
        # Bodies of one sender come in the order of their headers.
        body = oneflow.empty(header.n_bytes, dtype=oneflow.uint8, device="cpu")
        coming = self._group.issue("recv", body, peer=sender, tag=_BODIES, timeout=_FOREVER)
        coming._then(lambda: self._events.put((self._on_body, coming, sender, header, body)))
        self._next_header()

    def _on_body(self, work: Any, sender: int, header: Header, body: Tensor) -> None:
        if (error := work.exception()) is not None:
            self._break(str(error))
            return
        self._take(sender, header, body.numpy().data)

    def _take(self, sender: int, header: Header, data: Any) -> None:
        with self._idle:
            self._n_received += 1
            self._n_busy += 1
        if header.kind is Kind.HOLD:
            self.table.hold(header.number, header.context)
        elif header.kind is Kind.DROP:
            self.table.drop(header.number, header.context)
        elif header.kind is Kind.CALL:
            self._requests.submit(self._serve, sender, header, data)
            return
        else:
            self._results.submit(self._finish, sender, header, data)
            return
        self._settled()

    def _settled(self, n: int = 1) -> None:
        with self._idle:
            self._n_busy -= n
            self._idle.notify_all()

    def _serve(self, sender: int, header: Header, data: Any) -> None:
        """Run a call of another worker."""
        context = _contexts.of(header.context, self.rank) if header.context else None
        _contexts.enter(context)
        try:
            function, args, kwargs = _wire.unpack(data, context, sender, header, self._take_reference)
            del data
            result = function(*args, **kwargs)
            is_late = hasattr(function, "_wrapped_async_rpc_function")
            if is_late and not isinstance(result, Future):
                raise RuntimeError(
                    "Functions decorated with @rpc.async_function must return a torch.futures.Future object, but "
                    f"got {type(result).__name__}"
                )
        except Exception as error:
            self._answer_error(sender, header.number, error)
        except BaseException as error:
            # Such as SystemExit: the caller must not wait for ever.
            self._answer_error(sender, header.number, RuntimeError(f"{type(error).__name__}: {error}"))
        else:
            if is_late:
                result.add_done_callback(lambda done: self._answer_late(sender, header.number, context, done))
            else:
                self._answer(sender, header.number, result)
        finally:
            _contexts.enter(None)

    def _answer_late(self, to: int, number: int, context: _contexts.Context | None, done: Future) -> None:
        before = _contexts.current()
        _contexts.enter(context)
        try:
            if done._error is not None:
                self._answer_error(to, number, done._error)
            else:
                self._answer(to, number, done._value)
        finally:
            _contexts.enter(before)

    def _answer(self, to: int, number: int, value: Any) -> None:
        try:
            self._send(to, Kind.RESULT, number, value)
        except Exception as error:
            self._answer_error(to, number, error)
        else:
            self._settled()

    def _answer_error(self, to: int, number: int, error: BaseException) -> None:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        told = f"On {self.workers[self.rank]}:\n{error!r}\n{text}"
        try:
            for kind in (type(error), RuntimeError):
                try:
                    self._send(to, Kind.ERROR, number, (told, kind))
                    break
                except Exception as failure:
                    # A class that has no name of its own cannot be sent.
                    if kind is RuntimeError and not self.is_closed and self._failure is None:
                        sys.stderr.write(f"oneflow.distributed.rpc: cannot answer rank {to}: {failure}\n")
        finally:
            self._settled()

    def _finish(self, sender: int, header: Header, data: Any) -> None:
        """Give a call its result."""
        try:
            self._deadlines.take_back(header.number)
            call = self._calls.pop(header.number, None)
            # It may have been too late.
            if call is None or call.to != sender:
                return
            value, error = None, None
            try:
                context = _contexts.known(header.context)
                value = _wire.unpack(data, context, sender, header, self._take_reference)
                if header.kind is Kind.ERROR:
                    error = _remade(*value)
            except Exception as failure:
                error = failure
            call.future._settle(None if error is not None else value, error)
        finally:
            self._settled()

    # The end.

    def _break(self, why: str) -> None:
        """Nothing more comes: who waits for it hears why."""
        if self._failure is None and not self.is_closed:
            self._failure = f"rpc: {why}"
            for number in list(self._calls):
                self._fail_call(number, self._failure)

    def join(self, timeout: float | None) -> None:
        """Wait until no worker has anything to do for another.

        Each says how many messages it has sent and received, when it has nothing to do. They are through when the sums
        are equal, and the same as the time before: nothing was under way in between.

        Raises:
            RuntimeError: a worker is gone, or it took longer.
        """
        deadline = None if timeout is None else time.monotonic() + timeout

        def left() -> float:
            return _FOREVER if deadline is None else max(0.001, deadline - time.monotonic())

        before = None
        while True:
            with self._idle:
                quiet = self._idle.wait_for(
                    lambda: self._failure is not None or (self._n_busy == 0 and not self._calls), min(left(), 1e6)
                )
                counts = oneflow.tensor([self._n_sent, self._n_received], dtype=oneflow.int64, device="cpu")
            if self._failure is not None:
                raise RuntimeError(self._failure)
            if not quiet:
                raise RuntimeError(f"rpc.shutdown: {len(self._calls)} calls were not through after {timeout} s")
            if len(self.workers) > 1:
                self._group.issue("all_reduce", counts, timeout=left()).wait()
            now = counts.tolist()
            if now[0] == now[1] and now == before:
                return
            before = now

    def close(self) -> None:
        """Leave the other workers; calls that wait fail."""
        self._break("the worker was shut down")
        self.is_closed = True
        self._group.close()
        self._events.put(None)
        if threading.current_thread() is not self._listener:
            self._listener.join()
        for part in (self._requests, self._results, self._deadlines):
            part.close()


def _places(
    here: str, mine: dict[str, dict[str, str]], there: WorkerInfo, maps: list[dict[str, dict[str, str]]]
) -> dict[str, str]:
    """Where tensors on this worker's GPUs arrive on another: by its own map, and by the other's the other way."""
    back = {target: source for source, target in maps[there.id].get(here, {}).items()}
    return {**back, **mine.get(there.name, {})}


def _remade(told: str, kind: Any) -> Exception:
    """The exception of another worker, with its class and its text."""
    try:
        found = kind(told)
    except Exception as error:
        return RuntimeError(
            f"Failed to create original exception type. Error msg was {error} Original exception on remote side was "
            f"{told}"
        )
    return found if isinstance(found, Exception) else RuntimeError(told)


@functions.async_execution
def _create(number: int, function: Callable[..., Any], args: Any, kwargs: Any) -> Future:
    """On the owner: run a function whose result stays. The future is done when it is there."""
    # Nobody may hold it any more.
    entry, made = _state.agent().table.find(number) or Entry(), Future()

    def settle(value: Any, error: BaseException | None) -> None:
        if not entry.value.done():
            entry.value._settle(value, error)
        made.set_result(None)

    try:
        result = function(*args, **kwargs)
    except Exception as error:
        settle(None, error)
    else:
        if hasattr(function, "_wrapped_async_rpc_function") and isinstance(result, Future):
            result.add_done_callback(lambda done: settle(done._value, done._error))
        else:
            settle(result, None)
    return made


def _fail(number: int, why: str) -> None:
    """On the owner: a value that will not come."""
    entry = _state.agent().table.find(number)
    if entry is not None and not entry.value.done():
        entry.value.set_exception(RuntimeError(why))
