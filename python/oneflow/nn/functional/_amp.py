"""Autocast rules of functions that are composed in Python: some compute in float32, as their ops would."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with half-precision tensors cast to float32 where autocast is on."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        device = next((value.device.type for value in args if isinstance(value, Tensor)), "cpu")
        if device not in ("cpu", "cuda") or not oneflow.is_autocast_enabled(device):
            return function(*args, **kwargs)
        args = tuple(map(_widened, args))
        return function(*args, **{name: _widened(value) for name, value in kwargs.items()})

    return wrapper


def _widened(value: Any) -> Any:
    is_half = isinstance(value, Tensor) and value.dtype in (oneflow.bfloat16, oneflow.float16)
    return value.float() if is_half else value
