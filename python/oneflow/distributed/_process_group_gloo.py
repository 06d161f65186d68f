"""``ProcessGroupGloo``: a group made by hand, whose ranks meet in a store, under the name of PyTorch's class.

It is a group like those of ``new_group``, over the same sockets and shared memory, and may stand beside the job's own
or without one.
"""

from __future__ import annotations

import datetime
import fcntl
import ipaddress
import socket
import struct
from typing import Any

from oneflow import _oneflow
from oneflow.distributed._groups import _seconds
from oneflow.distributed._stores import Store

__all__ = ["ProcessGroupGloo"]

_SIOCGIFADDR = 0x8915


class _Device:
    """An address on which a rank listens."""

    def __init__(self, address: str) -> None:
        self.address = address

    def __repr__(self) -> str:
        return f"ProcessGroupGloo.Device({self.address})"


class _Options:
    """``_timeout`` of every operation, ``_devices`` of which the first is listened on; ``_threads`` has no effect."""

    def __init__(self) -> None:
        self.backend = "gloo"
        self._timeout: Any = datetime.timedelta(minutes=30)
        self._devices: list[_Device] = []
        self._threads = 2
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""


class _Made(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _oneflow._ProcessGroup)


class ProcessGroupGloo(metaclass=_Made):
    """A group of CPU tensors whose ranks meet in a store, beside the job's groups.

    All ``size`` ranks make it; the call returns once all have come. Ranks are numbered within the group. Where the job
    has a secret these groups need it too; without one all ranks run on one host.

    Args:
        store: a :class:`TCPStore`, :class:`FileStore` or :class:`HashStore`, or a :class:`PrefixStore` of one. Groups
            that are made one after the other may share it.
        rank: this process's number in the group.
        size: the number of ranks.
        timeout: of every operation, a ``datetime.timedelta`` or seconds; thirty minutes by default. Or options:
            ``ProcessGroupGloo._Options()`` with ``_timeout`` and ``_devices``.

    Raises:
        RuntimeError: not all ranks came within the timeout, five minutes by default.
        ValueError: ``rank`` is not below ``size``.
        TypeError: the store is none of this package.

    Example::

        >>> import oneflow.distributed as dist
        >>> group = dist.ProcessGroupGloo(dist.HashStore(), 0, 1)
        >>> x = oneflow.ones(2)
        >>> group.allreduce(x).wait()
        True
        >>> group.shutdown()
    """

    Device = _Device
    Options = _Options
    _Options = _Options

    def __init_subclass__(cls) -> None:
        raise TypeError("ProcessGroupGloo makes compiled groups; derive from ProcessGroup")

    def __new__(cls, store: Store, rank: int, size: int, timeout: Any = None) -> Any:
        name = "ProcessGroupGloo"
        if not isinstance(store, Store) or not isinstance(store._store, _oneflow._Store):
            raise TypeError(f"{name}: ranks meet in a TCPStore, FileStore or HashStore, got {type(store).__name__}")
        if rank < 0 or size < 1:
            raise ValueError(f"{name}: rank {rank} of {size} ranks")
        address = None
        if isinstance(timeout, _Options):
            devices, timeout = timeout._devices, timeout._timeout
            address = devices[0].address if devices else None
        seconds = _seconds(timeout)
        return _oneflow._group_over_store(store._store, rank, size, seconds, address)

    @staticmethod
    def create_device(hostname: str = "", interface: str = "", lazy_init: bool | None = None) -> _Device:
        """The address that a host name or a network interface of this machine has.

        Args:
            hostname: a name or an address.
            interface: such as ``"lo"``.
            lazy_init: accepted; large groups connect when there is something to send, small ones when they are made.

        Raises:
            ValueError: neither was given, or there is no such name or interface.
        """
        if interface:
            return _Device(_address_of(interface))
        if not hostname:
            raise ValueError("create_device: give a hostname or an interface")
        try:
            found = socket.getaddrinfo(hostname, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ValueError(f"create_device: hostname {hostname!r}: {error.strerror}") from None
        return _Device(str(found[0][4][0]))

    @staticmethod
    def create_default_device(lazy_init: bool | None = None) -> _Device:
        """The loopback address."""
        return _Device("127.0.0.1")


def _address_of(interface: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            request = struct.pack("256s", interface.encode()[:15])
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError as error:
            names = ", ".join(name for _, name in socket.if_nameindex())
            raise ValueError(
                f"create_device: interface {interface!r}: {error.strerror}; this machine has {names}"
            ) from None
    return str(ipaddress.IPv4Address(answer[20:24]))
