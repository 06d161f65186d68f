"""``torch._dynamo.utils``."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator
from typing import Any


def is_compile_supported(device_type: Any) -> bool:
    """Return whether :func:`oneflow.compile` takes programs for that kind of device."""
    return str(device_type).partition(":")[0] in ("cpu", "cuda")


@functools.cache
def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warn, the first time that a text is given."""
    warnings.warn(msg, stacklevel=stacklevel + 2)


@contextlib.contextmanager
def disable_cache_limit() -> Iterator[None]:
    """Change nothing: compiled programs are not counted."""
    yield
