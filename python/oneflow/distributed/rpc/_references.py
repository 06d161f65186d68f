"""References to values of other workers, and who holds them.

The owner of a value keeps it while anybody holds a reference. Each holder has a number: a reference that is sent to a
third worker gets one that its sender announces to the owner first; the first holder is announced before the call that
makes the value. Messages between two workers keep their order, so the sender's own hold ends after that, and the owner
always has one in between; a holder that ends before the owner hears that it began cancels out.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from oneflow.distributed.rpc import functions
from oneflow.distributed.rpc.constants import UNSET_RPC_TIMEOUT
from oneflow.futures import Future

if TYPE_CHECKING:
    from oneflow.distributed.rpc._agent import Agent, WorkerInfo

__all__ = ["RRef"]

T = TypeVar("T")


class Entry:
    """A value on its owner: there now or later."""

    def __init__(self) -> None:
        self.value = Future()
        self.holders: set[int] = set()


class Table:
    """The values that other workers may hold references to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[int, Entry] = {}
        self._dropped_early: set[int] = set()

    def find(self, number: int) -> Entry | None:
        """The entry of a reference, if anybody holds it."""
        with self._lock:
            return self._entries.get(number)

    def entry(self, number: int, made: Entry | None = None) -> Entry:
        """The entry of a reference; ``made``, or a new one, if nobody has spoken of it yet."""
        with self._lock:
            return self._entries.setdefault(number, made or Entry())

    def hold(self, number: int, holder: int) -> Entry:
        """Note a holder."""
        with self._lock:
            entry = self._entries.setdefault(number, Entry())
            if holder in self._dropped_early:
                self._dropped_early.discard(holder)
            else:
                entry.holders.add(holder)
            if not entry.holders:
                del self._entries[number]
            return entry

    def drop(self, number: int, holder: int) -> None:
        """Note that a holder is gone; the value goes with the last."""
        freed = None
        with self._lock:
            entry = self._entries.get(number)
            if entry is None or holder not in entry.holders:
                self._dropped_early.add(holder)
                return
            entry.holders.discard(holder)
            if not entry.holders:
                freed = self._entries.pop(number)
        # Outside the lock: it may be anything.
        del freed

    def __len__(self) -> int:
        return len(self._entries)


class RRef(Generic[T]):
    """A reference to a value that lives on a worker, its owner.

    Args:
        value: a value of this worker, which becomes its owner. Those of others come from
            :func:`~oneflow.distributed.rpc.remote`.
        type_hint: accepted.

    Raises:
        RuntimeError: this process is no worker.

    Example::

        >>> from oneflow.distributed import rpc
        >>> rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> reference = rpc.RRef([1, 2])
        >>> reference.is_owner(), reference.owner_name(), reference.local_value()
        (True, 'worker0', [1, 2])
        >>> reference.rpc_sync().index(2)
        1
        >>> rpc.shutdown()
    """

    def __init__(self, value: T, type_hint: Any = None) -> None:
        from oneflow.distributed.rpc import _state

        agent, entry = _state.agent(), Entry()
        entry.value.set_result(value)
        self._set(agent, agent.rank, None, None, entry)

    def _set(
        self,
        agent: Agent,
        owner: int,
        number: int | None,
        holder: int | None,
        entry: Entry | None,
        created: Future | None = None,
    ) -> None:
        self._agent, self._owner, self._number, self._holder = agent, agent.workers[owner], number, holder
        self._entry, self._created = entry, created

    @classmethod
    def _of(cls, *args: Any) -> RRef[Any]:
        made = cls.__new__(cls)
        made._set(*args)
        return made

    def __del__(self) -> None:
        holder = getattr(self, "_holder", None)
        if holder is not None and self._number is not None:
            # Any thread may be here, at any place: nothing but a note is left.
            self._agent.drop_later(self._owner.id, self._number, holder)

    def __reduce__(self) -> Any:
        raise RuntimeError(
            "Can not pickle rref in python pickler, rref can only be pickled when using RPC: as an argument or a "
            "result of a call"
        )

    def __repr__(self) -> str:
        if self._entry is not None:
            return f"OwnerRRef({self._entry.value.wait()!r})" if self._entry.value.done() else "OwnerRRef(pending)"
        return f"UserRRef(owner={self._owner.name}, number={self._number}, holder={self._holder})"

    def owner(self) -> WorkerInfo:
        """The worker that has the value."""
        return self._owner

    def owner_name(self) -> str:
        """Its name."""
        return self._owner.name

    def is_owner(self) -> bool:
        """Whether that is this worker."""
        return self._entry is not None

    def confirmed_by_owner(self) -> bool:
        """Whether the owner is known to have the value."""
        return self._created is None or (self._created.done() and self._created._error is None)

    def local_value(self) -> T:
        """The value itself, on its owner.

        Raises:
            RuntimeError: this worker is not the owner.
        """
        if self._entry is None:
            here = self._agent.workers[self._agent.rank]
            raise RuntimeError(
                f"For {here}, can't call localValue() on user {here} with {self}. Call it on owner {self._owner}"
            )
        return self._entry.value.wait()

    def to_here(self, timeout: float = UNSET_RPC_TIMEOUT) -> T:
        """A copy of the value, when it is there; on its owner the value itself.

        Args:
            timeout: seconds; 0 for no limit, that of the worker by default.

        Raises:
            RuntimeError: it took longer.
            Exception: what the function that makes the value has raised.
        """
        if self._entry is not None:
            return self._entry.value.wait()
        return _first_error(self._created, self._agent.call(self._owner, _value_of, (self,), {}, timeout)).wait()

    def _get_future(self) -> Future:
        """Done when the owner has the value."""
        if self._entry is not None:
            return self._entry.value
        if self._created is not None:
            return self._created
        done = Future()
        done.set_result(None)
        return done

    def _get_type(self, timeout: float = UNSET_RPC_TIMEOUT, blocking: bool = True) -> Any:
        """The class of the value, or a future of it."""
        found = self._agent.call(self._owner, _type_of, (self,), {}, timeout)
        return found.wait() if blocking else found

    def rpc_sync(self, timeout: float = UNSET_RPC_TIMEOUT) -> Any:
        """The methods of the value, which run on its owner and give their results here."""
        return _Methods(self, lambda future: future.wait(), timeout)

    def rpc_async(self, timeout: float = UNSET_RPC_TIMEOUT) -> Any:
        """The methods of the value, which run on its owner and give futures here."""
        return _Methods(self, lambda future: future, timeout)

    def remote(self, timeout: float = UNSET_RPC_TIMEOUT) -> Any:
        """The methods of the value, which run on its owner and give references to their results."""
        return _Methods(self, None, timeout)

    def backward(self, dist_autograd_ctx_id: int = -1, retain_graph: bool = False) -> None:
        """Compute gradients back from the value, a scalar, on its owner.

        Args:
            dist_autograd_ctx_id: the context that they go to; without one they go to ``.grad`` on the owner.
            retain_graph: so that it can be called again.
        """
        if self._entry is None:
            self._agent.call(self._owner, _backward, (self, dist_autograd_ctx_id, retain_graph), {}).wait()
        else:
            _backward(self, dist_autograd_ctx_id, retain_graph)


class _Methods:
    """The methods of the value of a reference, called on its owner."""

    def __init__(self, reference: RRef[Any], finish: Any, timeout: float) -> None:
        self._reference, self._finish, self._timeout = reference, finish, timeout

    def __getattr__(self, name: str) -> Any:
        reference, finish, timeout = self._reference, self._finish, self._timeout

        def call(*args: Any, **kwargs: Any) -> Any:
            what = (reference, name, args, kwargs)
            if finish is None:
                return reference._agent.remote(reference._owner, _call_method, what, {}, timeout)
            return finish(reference._agent.call(reference._owner, _call_method, what, {}, timeout))

        return call


def _first_error(created: Future | None, fetched: Future) -> Future:
    """The second, or the error of the first if it has one: then the second waits for nothing."""
    if created is None or (created.done() and created._error is None):
        return fetched
    result, lock = Future(), threading.Lock()

    def settle(done: Future) -> None:
        with lock:
            if result.done() or (done is created and done._error is None):
                return
            result._settle(done._value, done._error)

    created.add_done_callback(settle)
    fetched.add_done_callback(settle)
    return result


@functions.async_execution
def _value_of(reference: RRef[Any]) -> Future:
    return reference._get_future()


@functions.async_execution
def _type_of(reference: RRef[Any]) -> Future:
    return reference._get_future().then(lambda done: type(done.wait()))


@functions.async_execution
def _call_method(reference: RRef[Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Future:
    method = getattr(reference.local_value(), name)
    result = method(*args, **kwargs)
    if hasattr(method, "_wrapped_async_rpc_function"):
        return result
    done = Future()
    done.set_result(result)
    return done


def _backward(reference: RRef[Any], context_id: int, retain_graph: bool) -> None:
    value: Any = reference.local_value()
    if context_id == -1:
        value.backward(retain_graph=retain_graph)
        return
    from oneflow.distributed import autograd

    autograd.backward(context_id, [value], retain_graph)
