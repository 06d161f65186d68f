"""Key-value stores under PyTorch's names: where ranks meet and leave each other small values."""

from __future__ import annotations

import contextlib
import copy
import datetime
import time
import weakref
from collections.abc import Iterator
from typing import Any

from oneflow import _oneflow
from oneflow.distributed._groups import _seconds
from oneflow.distributed._names import DistNetworkError, DistStoreError, QueueEmptyError

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]

_DEFAULT = 300.0


@contextlib.contextmanager
def _within(seconds: float, keys: list[str]) -> Iterator[None]:
    """Tell a wait that has run out of time from other failures."""
    end = time.monotonic() + seconds
    try:
        yield
    except RuntimeError as error:
        if time.monotonic() < end:
            raise DistNetworkError(str(error)) from None
        named = ", ".join(f"/{key}" for key in keys)
        raise DistStoreError(f"wait timeout after {int(1000 * seconds)}ms, keys: {named}: {error}") from None


def _bytes(name: str, value: str | bytes) -> bytes:
    if not isinstance(value, (str, bytes, bytearray)):
        # bytes() of a number is so many zeros.
        raise TypeError(f"{name}: a value must be str or bytes, got {type(value).__name__}")
    return value.encode() if isinstance(value, str) else bytes(value)


class _OfPython:
    """What the methods of :class:`Store` call, for a class of the program that overrides them: its own methods."""

    def __init__(self, store: Store, prefix: str = "") -> None:
        self._of, self._prefix = store, prefix

    def has(self, name: str) -> bool:
        """Whether the class has the method itself."""
        return getattr(type(self._of), name) is not getattr(Store, name)

    def _call(self, name: str, key: Any, *args: Any) -> Any:
        if not self.has(name):
            raise NotImplementedError(f"{type(self._of).__name__}.{name}: Not implemented.")
        named = [self._prefix + k for k in key] if isinstance(key, list) else self._prefix + key
        return getattr(self._of, name)(named, *args)

    def prefixed(self, prefix: str) -> _OfPython:
        return _OfPython(self._of, f"{self._prefix}{prefix}/")

    def set(self, key: str, value: bytes) -> None:
        self._call("set", key, value)

    def get(self, key: str, timeout: float) -> bytes:
        return self._call("get", key)

    def add(self, key: str, amount: int) -> int:
        return self._call("add", key, amount)

    def append(self, key: str, value: bytes) -> None:
        if self.has("append") or not self.has("compare_set"):
            self._call("append", key, value)
            return
        before = self.compare_set(key, b"", value)
        while before != value:
            longer = before + value
            found = self.compare_set(key, before, longer)
            if found == longer:
                return
            before = found

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        return self._call("compare_set", key, expected, desired)

    def check(self, keys: list[str]) -> bool:
        return self._call("check", keys)

    def wait(self, keys: list[str], timeout: float | None) -> None:
        self._call("wait", keys, datetime.timedelta(seconds=timeout or 0.0))

    def delete_key(self, key: str) -> bool:
        return self._call("delete_key", key)

    def num_keys(self) -> int:
        raise NotImplementedError(f"{type(self._of).__name__}.num_keys: Not implemented.")

    def list_keys(self) -> list[str]:
        if not self.has("list_keys"):
            raise NotImplementedError(f"{type(self._of).__name__}.list_keys: Not implemented.")
        keys = type(self._of).list_keys(self._of)
        return [key.removeprefix(self._prefix) for key in keys if key.startswith(self._prefix)]

    def queue_push(self, key: str, value: bytes) -> None:
        self._call("queue_push", key, value)

    def queue_pop(self, key: str, timeout: float | None) -> bytes | None:
        return self._call("queue_pop", key, timeout is not None)

    def queue_len(self, key: str) -> int:
        return self._call("queue_len", key)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        return self._call("multi_get", keys)

    def multi_set(self, keys: list[str], values: list[Any]) -> None:
        self._call("multi_set", keys, values)


class Store:
    """A map from names to bytes that several processes or threads share; values may be given as ``str``.

    Make one of its classes: :class:`TCPStore`, :class:`FileStore`, :class:`HashStore` or :class:`PrefixStore`. A class
    of the program may override its methods and stand below a :class:`PrefixStore`; ranks cannot meet in it.

    Example::

        >>> store = oneflow.distributed.HashStore()
        >>> store.set("key", "value")
        >>> store.get("key")
        b'value'
    """

    _timeout = _DEFAULT

    def __init__(self) -> None:
        if type(self) is Store:
            raise TypeError("Store: make a TCPStore, FileStore, HashStore or PrefixStore")
        self._timeout = _DEFAULT

    def __getattr__(self, name: str) -> Any:
        if name != "_store" or type(self).__module__ == __name__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return _OfPython(self)

    @property
    def timeout(self) -> datetime.timedelta:
        """How long operations wait."""
        return datetime.timedelta(seconds=self._timeout)

    def set_timeout(self, timeout: datetime.timedelta | float) -> None:
        """Change how long :meth:`get` and :meth:`wait` wait."""
        self._timeout = _seconds(timeout) or 0.0

    def set(self, key: str, value: str | bytes) -> None:
        """Set a value, whether there was one or not."""
        self._store.set(key, _bytes("set", value))

    def get(self, key: str) -> bytes:
        """Wait for the key and return its value.

        Raises:
            DistStoreError: nobody has set it in time.
        """
        with _within(self._timeout, [key]):
            return self._store.get(key, self._timeout)

    def add(self, key: str, amount: int) -> int:
        """Add to a number, which begins at 0, and return the sum."""
        return self._store.add(key, amount)

    def append(self, key: str, value: str | bytes) -> None:
        """Put bytes behind those of the key."""
        self._store.append(key, _bytes("append", value))

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        """Set ``desired`` if the value is ``expected``, or if there is none and ``expected`` is empty.

        Return the value that is there then, or ``expected`` where there is none.
        """
        name = "compare_set"
        return self._store.compare_set(key, _bytes(name, expected), _bytes(name, desired))

    def check(self, keys: list[str]) -> bool:
        """Whether all keys exist."""
        return self._store.check(keys)

    def wait(self, keys: list[str], timeout: datetime.timedelta | float | None = None) -> None:
        """Wait until all keys exist.

        Raises:
            DistStoreError: some were not set in time; it names them.
        """
        seconds = self._timeout if timeout is None else _seconds(timeout) or 0.0
        with _within(seconds, keys):
            self._store.wait(keys, seconds)

    def delete_key(self, key: str) -> bool:
        """Delete a key; return whether it was there."""
        return self._store.delete_key(key)

    def num_keys(self) -> int:
        """How many keys there are."""
        return self._store.num_keys()

    def list_keys(self) -> list[str]:
        """All keys, in no order. Queues are none."""
        return self._store.list_keys()

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Put a value at the end of a queue.

        A queue is not the value of the same key: only :meth:`wait` and :meth:`check` ask for either. Of those who wait
        for a queue one goes on for each value.

        Raises:
            NotImplementedError: the store is a :class:`FileStore`, or a class of the program without queues.
        """
        self._store.queue_push(key, _bytes("queue_push", value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of a queue.

        Args:
            block: wait for a value where there is none.

        Raises:
            QueueEmptyError: there is none, with ``block=False``.
            DistStoreError: nobody has put one there in time.
        """
        if not block:
            value = self._store.queue_pop(key, None)
            if value is None:
                raise QueueEmptyError(f"queue_pop: queue '{key}' is empty")
            return value
        with _within(self._timeout, [key]):
            return self._store.queue_pop(key, self._timeout)

    def queue_len(self, key: str) -> int:
        """How many values a queue has; 0 where there is no such queue."""
        return self._store.queue_len(key)

    def clone(self) -> Any:
        """Another object for the same store, with a timeout of its own. Threads may also share one."""
        return copy.copy(self)

    def barrier(self, key: str, world_size: int, timeout: datetime.timedelta | float | None = None) -> None:
        """Wait until so many have called it with this key, which counts them and is for one meeting.

        Raises:
            ValueError: ``world_size`` is not positive.
            DistStoreError: some did not come in time.
        """
        if world_size <= 0:
            raise ValueError(f"barrier: world_size must be positive, got {world_size}")
        seconds = self._timeout if timeout is None else _seconds(timeout) or 0.0
        end, pause, n_here = time.monotonic() + seconds, 0.001, self.add(key, 1)
        while n_here < world_size:
            if time.monotonic() > end:
                raise DistStoreError(
                    f"barrier timeout after {int(1000 * seconds)}ms, key: /{key}: {n_here} of {world_size} have come"
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
            n_here = self.add(key, 0)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """:meth:`get` each of the keys."""
        if isinstance(self._store, _OfPython) and (self._store.has("multi_get") or not self._store.has("get")):
            return self._store.multi_get(keys)
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: list[str | bytes]) -> None:
        """:meth:`set` each of the keys."""
        if len(keys) != len(values):
            raise ValueError(f"multi_set: {len(keys)} keys and {len(values)} values")
        if isinstance(self._store, _OfPython) and (self._store.has("multi_set") or not self._store.has("set")):
            self._store.multi_set(keys, [_bytes("multi_set", value) for value in values])
            return
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Whether there are :meth:`append`, :meth:`multi_get` and :meth:`multi_set`: always in this package's."""
        return not isinstance(self._store, _OfPython) or self._store.has("append")


# The servers of this process that share their port.
_tenants: weakref.WeakValueDictionary[int, TCPStore] = weakref.WeakValueDictionary()


class TCPStore(Store):
    """A store in one process, the server, which others reach over TCP.

    It speaks the protocol of PyTorch's class of this name: the server of either package serves clients of both.

    Args:
        host_name: where the server listens.
        port: 0 lets the server take a free one, which is then its ``port``.
        world_size: the server waits until so many, itself among them, have come.
        is_master: this process is the server.
        timeout: of every operation; five minutes by default.
        wait_for_workers: whether to wait for them.
        multi_tenant: a second server of this process at one port is a client of the first.
        use_libuv: accepted; one thread serves all clients in any case.

    Raises:
        DistNetworkError: the port is taken, or the server did not come in time.
        DistStoreError: the others did not come in time.

    Example::

        >>> store = oneflow.distributed.TCPStore("127.0.0.1", 0, is_master=True)
        >>> store.add("n", 2), oneflow.distributed.TCPStore("127.0.0.1", store.port).add("n", 3)
        (2, 5)
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: datetime.timedelta | float = _DEFAULT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        if master_listen_fd is not None:
            raise NotImplementedError("TCPStore: master_listen_fd is not supported; give a port")
        if not 0 <= port < 65536:
            raise ValueError(f"TCPStore: port must be from 0 to 65535, got {port}")
        if world_size == 0:
            raise ValueError("TCPStore world size cannot be 0")
        self.set_timeout(timeout)
        shared = _tenants.get(port) if multi_tenant and is_master else None
        try:
            self._store = _oneflow._Store.tcp(host_name, port, is_master and shared is None, self._timeout)
        except RuntimeError as error:
            what = "The server socket has failed to listen on any local network address. " if is_master else ""
            raise DistNetworkError(f"{what}{error}") from None
        self.host, self.port = host_name, self._store.port()
        self.libuvBackend = use_libuv
        if multi_tenant and is_master:
            # Clients keep the server.
            self._server = shared
            if shared is None:
                _tenants[int(self.port or 0)] = self
        if wait_for_workers and world_size is not None and world_size > 0:
            n_here = self.add("init/", 1)
            if is_master:
                self._wait_for_clients(n_here, world_size)

    def _wait_for_clients(self, n_here: int, world_size: int) -> None:
        end, pause = time.monotonic() + self._timeout, 0.001
        while n_here < world_size:
            if time.monotonic() > end:
                raise DistStoreError(
                    f"Timed out after {int(self._timeout) + 1} seconds waiting for clients. {n_here}/{world_size} "
                    "clients joined."
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
            n_here = self.add("init/", 0)


class FileStore(Store):
    """A store in a file that all processes can open, on a file system with locks. The file stays.

    Args:
        file_name: it is made if it is not there.
        world_size: accepted; nobody is waited for.

    Example::

        >>> store = oneflow.distributed.FileStore("meeting")
        >>> store.set("key", "value")
        >>> oneflow.distributed.FileStore("meeting").get("key")
        b'value'
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = file_name
        self._store = _oneflow._Store.file(str(file_name), self._timeout)


class HashStore(Store):
    """A store inside this process, for ranks that are threads.

    Example::

        >>> oneflow.distributed.HashStore().add("n", 1)
        1
    """

    def __init__(self) -> None:
        super().__init__()
        self._store = _oneflow._Store.memory(self._timeout)


class PrefixStore(Store):
    """Another store, with a prefix before each key.

    Example::

        >>> store = oneflow.distributed.HashStore()
        >>> oneflow.distributed.PrefixStore("mine", store).set("key", "value")
        >>> store.get("mine/key")
        b'value'
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        found: Any = store
        if found is None:
            raise ValueError("PrefixStore: store must be a Store, got None")
        if not isinstance(found, Store):
            raise TypeError(f"PrefixStore: store must be a Store, got {type(found).__name__}")
        self.underlying_store = store
        self._underlying_non_prefix_store = getattr(store, "_underlying_non_prefix_store", store)
        self.set_timeout(store.timeout)
        self._store = store._store.prefixed(prefix)
