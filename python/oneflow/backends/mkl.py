"""Intel's MKL is not used: kernels and threads are the package's own."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """False: it is not used.

    Example::

        >>> oneflow.backends.mkl.is_available()
        False
    """
    return False


VERBOSE_OFF, VERBOSE_ON = 0, 1


class verbose:
    """Accepted: there are no calls of it to print."""

    def __init__(self, enable: int) -> None:
        self.enable = enable

    def __enter__(self) -> verbose:
        return self

    def __exit__(self, *raised: object) -> None:
        pass
