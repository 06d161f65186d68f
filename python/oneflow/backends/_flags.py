"""Contexts that set attributes of a module and put them back."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def changed(module: str, **values: Any) -> Iterator[None]:
    """Set those attributes of the module that are not None; put them back at the end."""
    target = sys.modules[module]
    wanted = {name: value for name, value in values.items() if value is not None}
    before = {name: getattr(target, name) for name in wanted}
    try:
        for name, value in wanted.items():
            setattr(target, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(target, name, value)
