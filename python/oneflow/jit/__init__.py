"""Tracing under TorchScript's names, and its decorators, which leave Python as it is.

:func:`trace` makes a program of ops of a module, which :func:`save` writes and :func:`load` reads. What :func:`script`
is given runs unchanged. To compile, use :func:`oneflow.compile` or :class:`oneflow.nn.Graph`; to serve a model without
Python, ``oneflow.save`` of a compiled graph.
"""

from __future__ import annotations

import builtins
import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from oneflow._base.refusals import refuse_class
from oneflow.jit._traced import ScriptFunction, ScriptModule, TracerWarning, load, save, trace, trace_module
from oneflow.nn.modules.module import Module

__all__ = [
    "Attribute",
    "CompilationUnit",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "TracerWarning",
    "annotate",
    "export",
    "freeze",
    "fork",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

T = TypeVar("T")

_INSTEAD = "use oneflow.compile or oneflow.nn.Graph to compile, and oneflow.save of a graph to run without Python"


def script(obj: T, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> T:
    """Return ``obj`` itself: functions, modules and classes run as they are. The first call of a process says so.

    Example::

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     oneflow.jit.script(lambda x: x + 1)(1)
        2
    """
    if not _said:
        _said.append(True)
        warnings.warn(
            "oneflow.jit.script leaves Python as it is: nothing is compiled. To compile, use oneflow.compile; to save "
            "a program, oneflow.jit.trace",
            UserWarning,
            stacklevel=2,
        )
    if builtins.isinstance(obj, Module):
        vars(obj)["_is_scripted"] = True
    return obj


# Whether `script` has said what it does.
_said: list[bool] = []


def script_method(fn: T) -> T:
    """Return ``fn`` itself.

    Example::

        >>> oneflow.jit.script_method(abs) is abs
        True
    """
    return fn


def script_if_tracing(fn: T) -> T:
    """Return ``fn`` itself.

    Example::

        >>> oneflow.jit.script_if_tracing(lambda x: x + 1)(1)
        2
    """
    return fn


# The name that OneFlow's libraries use.
_script_if_tracing = script_if_tracing


def export(fn: T) -> T:
    """Return ``fn`` itself: every method can be called.

    Example::

        >>> oneflow.jit.export(lambda x: x + 1)(1)
        2
    """
    return fn


def interface(obj: T) -> T:
    """Return ``obj`` itself.

    Example::

        >>> oneflow.jit.interface(int) is int
        True
    """
    return obj


def unused(fn: T) -> T:
    """Return ``fn`` itself: nothing is left out.

    Example::

        >>> oneflow.jit.unused(lambda x: x + 1)(1)
        2
    """
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Return the function itself: with or without arguments, as a decorator.

    Example::

        >>> oneflow.jit.ignore(lambda x: x + 1)(1)
        2
    """
    return drop if callable(drop) else lambda fn: fn


def annotate(the_type: Any, the_value: T) -> T:
    """Return ``the_value``; types are for the reader.

    Example::

        >>> oneflow.jit.annotate(list, [1])
        [1]
    """
    return the_value


def Attribute(value: T, type: Any = None) -> T:
    """Return ``value``; types are for the reader.

    Example::

        >>> oneflow.jit.Attribute(3, int)
        3
    """
    return value


def is_scripting() -> bool:
    """False: functions are never compiled as TorchScript.

    Example::

        >>> oneflow.jit.is_scripting()
        False
    """
    return False


def is_tracing() -> bool:
    """False: sizes are integers while a program is traced; see :func:`oneflow.compiler.is_exporting`.

    Example::

        >>> oneflow.jit.is_tracing()
        False
    """
    return False


def fork(func: Callable[..., T], *args: Any, **kwargs: Any) -> _Done:
    """Run ``func`` now; :func:`wait` returns what it returned.

    Example::

        >>> oneflow.jit.wait(oneflow.jit.fork(lambda x: x + 1, 1))
        2
    """
    return _Done(func(*args, **kwargs))


def wait(future: _Done) -> Any:
    """The result of :func:`fork`.

    Example::

        >>> oneflow.jit.wait(oneflow.jit.fork(lambda x: x + 1, 1))
        2
    """
    return future.value


class _Done:
    """A finished task."""

    def __init__(self, value: Any) -> None:
        self.value = value


def freeze(mod: T, preserved_attrs: Any = None, optimize_numerics: bool = True) -> T:
    """Return ``mod`` itself.

    Example::

        >>> oneflow.jit.freeze(abs) is abs
        True
    """
    return mod


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Change nothing inside.

    Example::

        >>> with oneflow.jit.optimized_execution(True):
        ...     pass
    """
    yield


@contextlib.contextmanager
def strict_fusion() -> Iterator[None]:
    """Change nothing inside.

    Example::

        >>> with oneflow.jit.strict_fusion():
        ...     pass
    """
    yield


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Accepted; there is no fuser of TorchScript. Returns the strategy before: none.

    Example::

        >>> oneflow.jit.set_fusion_strategy([("STATIC", 2)])
        []
    """
    return []


def onednn_fusion_enabled() -> bool:
    """False.

    Example::

        >>> oneflow.jit.onednn_fusion_enabled()
        False
    """
    return False


RecursiveScriptModule = refuse_class("oneflow.jit.RecursiveScriptModule", _INSTEAD)
CompilationUnit = refuse_class("oneflow.jit.CompilationUnit", _INSTEAD)


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's own ``isinstance``, of parametrised types such as ``list[int]`` by their origin.

    Example::

        >>> oneflow.jit.isinstance([1], list)
        True
    """
    import builtins
    from typing import get_origin

    types: tuple[Any, ...] = target_type if builtins.isinstance(target_type, tuple) else (target_type,)
    return builtins.isinstance(obj, tuple(t if get_origin(t) is None else get_origin(t) for t in types))
