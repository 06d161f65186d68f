"""Intel's GPUs: there is no provider for them."""

from __future__ import annotations

from typing import Any

from oneflow._base.refusals import refuse

__all__ = ["current_device", "device_count", "empty_cache", "is_available", "is_initialized", "synchronize"]

_INSTEAD = "there is no provider for Intel's GPUs; oneflow.xpu.is_available() is False"


def is_available() -> bool:
    """False: there is no provider for them.

    Example::

        >>> oneflow.xpu.is_available()
        False
    """
    return False


def is_initialized() -> bool:
    """False: there is no provider for them.

    Example::

        >>> oneflow.xpu.is_initialized()
        False
    """
    return False


def device_count() -> int:
    """0: there is no provider for them.

    Example::

        >>> oneflow.xpu.device_count()
        0
    """
    return 0


def empty_cache() -> None:
    """Do nothing: no memory is held.

    Example::

        >>> oneflow.xpu.empty_cache()
    """


def manual_seed(seed: int) -> None:
    """Do nothing: there is no generator to seed."""


manual_seed_all = manual_seed


def is_bf16_supported() -> bool:
    """False: there is no provider for them.

    Example::

        >>> oneflow.xpu.is_bf16_supported()
        False
    """
    return False


def memory_allocated(device: Any = None) -> int:
    """0: no memory is held.

    Example::

        >>> oneflow.xpu.memory_allocated()
        0
    """
    return 0


memory_reserved = max_memory_allocated = max_memory_reserved = memory_allocated


def reset_peak_memory_stats(device: Any = None) -> None:
    """Do nothing: no memory is held."""


current_device = refuse("oneflow.xpu.current_device", _INSTEAD)
get_device_properties = refuse("oneflow.xpu.get_device_properties", _INSTEAD)
get_device_capability = refuse("oneflow.xpu.get_device_capability", _INSTEAD)
get_device_name = refuse("oneflow.xpu.get_device_name", _INSTEAD)
set_device = refuse("oneflow.xpu.set_device", _INSTEAD)
synchronize: Any = refuse("oneflow.xpu.synchronize", _INSTEAD)
