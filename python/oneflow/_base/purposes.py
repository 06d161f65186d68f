"""What collectives are for, in words that ranks must agree in: those that look alike are told apart by them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

from oneflow import _oneflow

__all__ = ["purpose"]

_number = functools.cache(_oneflow._purpose)


@contextlib.contextmanager
def purpose(words: str) -> Iterator[None]:
    """Inside, collectives of this thread are for ``words``; ranks that are in them for other ones are out of step.

    A hook of the program is not called inside: the threads on which futures call back differ between ranks.
    """
    before = _oneflow._enter_purpose(_number(words))
    try:
        yield
    finally:
        _oneflow._enter_purpose(before)
