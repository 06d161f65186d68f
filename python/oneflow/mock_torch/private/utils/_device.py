"""``torch.utils._device``: the device of what is made inside a block or a function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import oneflow


class DeviceContext:
    """A context manager in which tensors are made on a device; a device itself is one, too."""

    def __init__(self, device: Any) -> None:
        self.device = oneflow.device(device)
        self._entered: list[Any] = []

    def __enter__(self) -> DeviceContext:
        block = oneflow.device(self.device)
        block.__enter__()
        self._entered.append(block)
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered.pop().__exit__(*error)


def set_device(device: Any, func: Callable[..., Any] | None = None) -> Any:
    """Let a function make its tensors on ``device``; without ``func`` a decorator that does so.

    The body of a generator runs with it too, and nothing between its steps.

    Raises:
        RuntimeError: ``func`` is a class.
    """
    if func is None:
        return functools.partial(set_device, device)
    if isinstance(func, type):
        raise RuntimeError("Cannot decorate classes; it is ambiguous whether only the constructor is meant")
    if inspect.isgeneratorfunction(func):
        return _generator(device, func)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with oneflow.device(device):
            return func(*args, **kwargs)

    return wrapped


def _generator(device: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """A generator whose body runs with the device, and nothing between its steps."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Iterator[Any]:
        steps = func(*args, **kwargs)
        while True:
            with oneflow.device(device):
                try:
                    value = next(steps)
                except StopIteration as end:
                    return end.value
            yield value

    return wrapped
