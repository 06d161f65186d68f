"""Intel's MKL is not used: kernels and threads are the package's own."""

from __future__ import annotations

from oneflow._base.refusals import constant

__all__ = ["is_available"]

is_available = constant("oneflow.backends.mkl.is_available", False, "it is not used")


VERBOSE_OFF, VERBOSE_ON = 0, 1


class verbose:
    """Accepted: there are no calls of it to print."""

    def __init__(self, enable: int) -> None:
        self.enable = enable

    def __enter__(self) -> verbose:
        return self

    def __exit__(self, *raised: object) -> None:
        pass
