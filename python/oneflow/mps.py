"""Apple's GPUs: there is no provider for them."""

from __future__ import annotations

from oneflow._base.refusals import refuse

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]

_INSTEAD = "there is no provider for Apple's GPUs; oneflow.backends.mps.is_available() is False"


def is_available() -> bool:
    """False: there is no provider for them.

    Example::

        >>> oneflow.mps.is_available()
        False
    """
    return False


def device_count() -> int:
    """0: there is no provider for them.

    Example::

        >>> oneflow.mps.device_count()
        0
    """
    return 0


def empty_cache() -> None:
    """Do nothing: no memory is held.

    Example::

        >>> oneflow.mps.empty_cache()
    """


def manual_seed(seed: int) -> None:
    """Do nothing: there is no generator to seed.

    Example::

        >>> oneflow.mps.manual_seed(0)
    """


synchronize = refuse("oneflow.mps.synchronize", _INSTEAD)
current_allocated_memory = refuse("oneflow.mps.current_allocated_memory", _INSTEAD)
driver_allocated_memory = refuse("oneflow.mps.driver_allocated_memory", _INSTEAD)
