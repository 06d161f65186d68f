"""Names of functions and types in printed graphs and generated code.

The library is ``oneflow``, or ``torch`` while :mod:`oneflow.mock_torch` is on: generated code then reads as the program
does that was traced.
"""

from __future__ import annotations

import builtins
import inspect
import operator
import sys
import types
from typing import Any

import oneflow
from oneflow import Tensor

# Modules that are searched for compiled functions, which do not name their module.
_PLACES = ("oneflow", "oneflow.nn.functional", "oneflow.linalg", "oneflow.special", "oneflow.fft")
# Functions of these go by the name of the module and their own, as ``linalg_norm``.
_PREFIXED = {f"oneflow.{name}": f"{name}_" for name in ("linalg", "fft", "special")}


def library() -> str:
    """The name that the library is imported under."""
    mock = sys.modules.get("oneflow.mock_torch")
    return "torch" if mock is not None and mock.is_enabled() else "oneflow"


def function_name(function: Any) -> str:
    """The name of a function, which nodes that call it are named after."""
    return _PREFIXED.get(getattr(function, "__module__", None) or "", "") + function.__name__


def module_of(function: Any) -> str:
    """Return the module that holds a function; raise RuntimeError if there is none."""
    module = getattr(function, "__module__", None)
    name = function.__name__
    if module is None or module.startswith("oneflow._oneflow"):
        for place in _PLACES:
            if getattr(sys.modules.get(place), name, None) is function:
                return place
    if module is None:
        raise RuntimeError(f"cannot find module for {function}")
    return module


def is_tensor_method(function: Any) -> bool:
    """Return whether ``function`` is a method of Tensor."""
    return vars(Tensor).get(getattr(function, "__name__", ""), None) is function


def qualified_name(function: Any) -> str:
    """The full name of a function or class, such as ``oneflow.nn.functional.relu``."""
    name = function.__name__
    if getattr(builtins, name, None) is function:
        return name
    if is_tensor_method(function):
        return f"{library()}.Tensor.{name}"
    if name == "<lambda>":
        try:
            name = inspect.getsource(function).split("=")[0].strip()
        except (OSError, TypeError) as error:
            raise RuntimeError("Unable to represent lambda") from error
    module = module_of(function)
    if module == "oneflow" or module.startswith("oneflow."):
        module = library() + module[len("oneflow") :]
    return f"{module}.{name}"


def is_of_library(value: Any) -> bool:
    """Return whether generated code may name ``value`` by its full name, since that is where it is found."""
    module = getattr(value, "__module__", None) or getattr(value, "__objclass__", Tensor).__module__
    if (
        isinstance(value, types.ModuleType)
        or not isinstance(module, str)
        or module.partition(".")[0] != "oneflow"
        or not hasattr(value, "__name__")
    ):
        return False
    place: Any = oneflow
    try:
        for part in qualified_name(value).split(".")[1:]:
            place = getattr(place, part)
    except (AttributeError, RuntimeError):
        return False
    return place is value


def type_name(value: Any) -> str:
    """The text of a type annotation."""
    is_generic = type(value) is types.GenericAlias
    if isinstance(value, type) and not is_generic:
        if value.__module__ == "builtins":
            return value.__qualname__
        if value is Tensor:
            return f"{library()}.Tensor"
        module = value.__module__
        return f"{library() + module[7:] if module.split('.')[0] == 'oneflow' else module}.{value.__qualname__}"
    if value is ...:
        return "..."
    return value.__name__ if isinstance(value, types.FunctionType) else repr(value)


def printed(target: Any) -> str:
    """A target as a printed graph names it."""
    if isinstance(target, str):
        return target
    module = getattr(target, "__module__", None)
    name = getattr(target, "__name__", None)
    if name is not None and module in ("builtins", operator.add.__module__):
        return f"{module.lstrip('_')}.{name}"
    return qualified_name(target)
