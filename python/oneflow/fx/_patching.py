"""Functions and methods that are replaced while a program is traced, and put back."""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from oneflow.fx.node import map_aggregate
from oneflow.fx.proxy import Proxy

T = TypeVar("T")

# Functions that :func:`wrap` registered: the globals of a module, and a name in them.
_wrapped: dict[tuple[int, str], dict[str, Any]] = {}
_MISSING = object()


def wrap(fn_or_name: T) -> T:
    """Record calls of a function as one node, instead of looking into it. To be called at the top of a module.

    Args:
        fn_or_name: a function of the module, as a decorator does, or the name of one that the module uses.

    Raises:
        RuntimeError: neither a function nor a name.
        NotImplementedError: called inside a function.

    Example::

        >>> from oneflow import fx
        >>> oneflow.fx.wrap(lambda x: x) is not None
        True
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__  # type: ignore[attr-defined]
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    if caller is None:
        raise AssertionError("there is no caller")
    if caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name


def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, whose calls with a proxy become a node."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    wrapped._fx_recorded = True  # type: ignore[attr-defined]
    return wrapped


def find_proxy(*values: Any) -> Proxy | None:
    """A proxy somewhere in ``values``."""
    found: list[Proxy] = []
    map_aggregate(values, lambda value: found.append(value) if isinstance(value, Proxy) else None)
    return found[-1] if found else None


class Patches:
    """Replacements that end with the ``with`` block."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._seen: set[int] = set()

    def __enter__(self) -> Patches:
        return self

    def __exit__(self, *error: Any) -> None:
        while self._undo:
            self._undo.pop()()

    def method(self, cls: type, name: str, new: Any) -> None:
        """Replace a method of a class."""
        old = vars(cls).get(name, _MISSING)
        self._undo.append(lambda: delattr(cls, name) if old is _MISSING else setattr(cls, name, old))
        setattr(cls, name, new)

    def function(self, namespace: dict[str, Any], name: str) -> None:
        """Record the calls of a function that a module's globals, or the builtins, hold under ``name``."""
        old = namespace.get(name, _MISSING)
        function = getattr(builtins, name) if old is _MISSING and hasattr(builtins, name) else namespace[name]
        if getattr(function, "_fx_recorded", False):
            return

        def undo() -> None:
            if old is _MISSING:
                del namespace[name]
            else:
                namespace[name] = old

        self._undo.append(undo)
        namespace[name] = recorded(function)

    def registered(self) -> None:
        """Record the calls of everything that :func:`wrap` registered."""
        for (_, name), namespace in list(_wrapped.items()):
            if name in namespace or hasattr(builtins, name):
                self.function(namespace, name)

    def search(self, namespace: dict[str, Any], functions: set[int]) -> None:
        """Record the calls of ``functions``, by identity, that a module's globals hold."""
        if id(namespace) in self._seen:
            return
        self._seen.add(id(namespace))
        for name, value in list(namespace.items()):
            if not name.startswith("_") and callable(value) and id(value) in functions:
                self.function(namespace, name)
