"""The CPU as a device: one, always there, synchronous."""

from __future__ import annotations

from typing import Any

from oneflow.cpu import amp

__all__ = ["amp", "current_device", "device_count", "is_available", "set_device", "synchronize"]


def is_available() -> bool:
    """Return True.

    Example::

        >>> oneflow.cpu.is_available()
        True
    """
    return True


def device_count() -> int:
    """Return one.

    Example::

        >>> oneflow.cpu.device_count()
        1
    """
    return 1


def current_device() -> str:
    """Return "cpu".

    Example::

        >>> oneflow.cpu.current_device()
        'cpu'
    """
    return "cpu"


def set_device(device: Any) -> None:
    """Accepted for compatibility: there is one CPU device.

    Example::

        >>> oneflow.cpu.set_device("cpu")
    """


def synchronize(device: Any = None) -> None:
    """Accepted for compatibility: ops on the CPU are done when they return.

    Example::

        >>> oneflow.cpu.synchronize()
    """
