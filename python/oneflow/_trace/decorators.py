"""Methods that mean one thing on a graph and, on the class, are decorators: OneFlow's and ours under one name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any


class Either:
    """A method of objects, and a decorator on the class."""

    def __init__(self, method: Callable[..., Any], decorator: Callable[..., Any]) -> None:
        self._method, self._decorator = method, decorator
        decorator.__doc__ = method.__doc__

    def __get__(self, graph: Any, kind: type) -> Any:
        return self._decorator if graph is None else MethodType(self._method, graph)


def keeping_shapes(*, size: int = 10, enable_shared: bool = True) -> Callable[..., Any]:
    """Return a decorator of ``__init__`` that calls the method of this name at the end."""

    def decorate(init: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(init)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
            init(self, *args, **kwargs)
            self.with_dynamic_input_shape(size=size, enable_shared=enable_shared)

        return wrapper

    return decorate
