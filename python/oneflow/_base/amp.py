"""Autocast rules of functions that are composed in Python: some compute in float32, as their ops would."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import _oneflow

Tensor = _oneflow.Tensor
# The devices whose ops cast; regions for others change nothing.
AUTOCAST_DEVICES = ("cpu", "cuda")


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with half-precision tensors cast to float32 where autocast is on."""
    return _in_float32(function, AUTOCAST_DEVICES)


def in_float32_on_host(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with half-precision tensors of the host cast to float32 where autocast is on."""
    return _in_float32(function, ("cpu",))


def lowered(*values: Tensor) -> tuple[Tensor, ...]:
    """The tensors as a product takes them: in autocast's dtype where it is on."""
    device = values[0].device.type
    if device not in AUTOCAST_DEVICES or not oneflow.is_autocast_enabled(device):
        return values
    dtype = oneflow.get_autocast_dtype(device)
    return tuple(v.to(dtype) if v.is_floating_point() and v.dtype != oneflow.float64 else v for v in values)


def widened_on_host(value: Tensor) -> Tensor:
    """A half-precision tensor of the host in float32 where autocast is on; any other as it is."""
    return _widened(value) if value.device.type == "cpu" and oneflow.is_autocast_enabled("cpu") else value


def _in_float32(function: Callable[..., Any], devices: tuple[str, ...]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        device = next((value.device.type for value in args if isinstance(value, Tensor)), "cpu")
        if device not in devices or not oneflow.is_autocast_enabled(device):
            return function(*args, **kwargs)
        args = tuple(map(_widened, args))
        # What the function is made of has its dtype already.
        kwargs = {name: _widened(value) for name, value in kwargs.items()}
        oneflow.set_autocast_enabled(device, False)
        try:
            return function(*args, **kwargs)
        finally:
            oneflow.set_autocast_enabled(device, True)

    return wrapper


def _widened(value: Any) -> Any:
    is_half = isinstance(value, Tensor) and value.dtype in (oneflow.bfloat16, oneflow.float16)
    return value.float() if is_half else value
