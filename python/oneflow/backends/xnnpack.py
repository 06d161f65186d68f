"""XNNPACK is not used: kernels and threads are the package's own."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """False: it is not used.

    Example::

        >>> isinstance(oneflow.backends.xnnpack.is_available(), bool)
        True
    """
    return False
