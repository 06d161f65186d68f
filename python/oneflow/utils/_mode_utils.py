"""Switches of what answers ops below autograd, under PyTorch's names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from oneflow.utils._python_dispatch import _DisableTorchDispatch

__all__ = ["no_dispatch"]


@contextlib.contextmanager
def no_dispatch() -> Iterator[None]:
    """Let no class of tensors answer ops (``__torch_dispatch__``) inside a block; with memory they are ordinary.

    Example::

        >>> from oneflow.utils._mode_utils import no_dispatch
        >>> with no_dispatch():
        ...     oneflow.ones(2) + 1
        tensor([2., 2.])
    """
    guard = _DisableTorchDispatch()
    try:
        yield
    finally:
        guard.end()
