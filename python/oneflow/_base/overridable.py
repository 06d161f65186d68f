"""Public functions written in Python honour ``__torch_function__`` before their body runs, as compiled ones do.

:func:`overridable` wraps a function so that an argument with ``__torch_function__`` handles the call before the body
runs. An ordinary call costs one extra call of the compiled module. A module of functions is wrapped at the end of its
file by :func:`publish`; functions inside the package that import the bare one skip that step.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Container, Iterable
from types import FunctionType
from typing import Any

from oneflow import _oneflow, overrides
from oneflow._oneflow import Tensor

_any_answers = _oneflow._C._any_answers
# The modules of public functions.
FUNCTION_MODULES = (
    "oneflow._functions.",
    "oneflow._linalg.",
    "oneflow._extra.",
    "oneflow.nn.functional",
    "oneflow._base.symbols",
)
_COMPILED_IN_PYTORCH = ("oneflow.linalg", "oneflow._linalg.", "oneflow._functions.")
_NUMPYS = {"axis": "dim", "keepdims": "keepdim"}
# Arguments that PyTorch's functions lack: they are passed on only if they were given.
_OURS = ("addend", "generator")
# The shapes of signatures met so far; each is compiled once.
_makers: dict[tuple[int, tuple[str, ...]], Callable[..., Any]] = {}


def publish(
    namespace: dict[str, Any],
    spelled_out: Container[str] = (),
    also: Container[str] = (),
    never: Container[str] = (),
) -> None:
    """Wrap the public functions of a module in place: those that it or another module of functions defines.

    Args:
        namespace: the module's ``globals()``.
        spelled_out: functions that pass required arguments by position and the rest by name, with their
            defaults, as PyTorch's functions do that are written in Python; the others pass what was given.
        also: further functions to wrap.
        never: functions that are not wrapped.
    """
    module = namespace["__name__"]
    # Functions that the package itself defines do not take tensors.
    homes = FUNCTION_MODULES if module == "oneflow" else (module, *FUNCTION_MODULES)
    for name, function in list(namespace.items()):
        if not isinstance(function, FunctionType) or name in never:
            continue
        if name in also or (not name.startswith("_") and function.__module__.startswith(homes)):
            namespace[name] = overridable(function, name in spelled_out, module)


def overridable(function: FunctionType, spelled_out: bool = False, module: str | None = None) -> Any:
    """Return ``function`` wrapped: an argument, or an item of a list, with ``__torch_function__`` handles the call.

    Example::

        >>> from oneflow._base.overridable import overridable
        >>> overridable(lambda x: x + 1)(oneflow.ones(1))
        tensor([2.])
    """
    if "_public" in vars(function):
        return function._public  # type: ignore[attr-defined]
    made = _spelled_out(function) if spelled_out else _as_given(function)
    functools.update_wrapper(made, function)
    # The wrapper of a function is one object, and its own.
    function._public = made._public = made  # type: ignore[attr-defined]
    if module is not None:
        made.__module__ = module
    return made


def overridable_method(function: Any, special: bool = False) -> Any:
    """Return a method or property of Tensor that honours ``__torch_function__``; other objects are returned as is.

    Special methods (``__len__``) are such objects, unless ``special`` is set.

    Example::

        >>> from oneflow._base.overridable import overridable_method
        >>> overridable_method(len) is len
        True
    """
    if isinstance(function, property):
        return _overridable_property(function)
    if not isinstance(function, FunctionType) or (function.__name__.startswith("__") and not special):
        return function
    if "_is_method" in vars(function):
        return function
    made = _as_given(function)
    functools.update_wrapper(made, function)
    made.__dict__.pop("_public", None)
    made._is_method = True
    return made


def _overridable_property(plain: property) -> property:
    """A property whose ``__get__``, ``__set__`` and ``__delete__`` are handed over, as those of compiled attributes."""

    def asking(action: str, function: Callable[..., Any] | None) -> Callable[..., Any] | None:
        if function is None:
            return None

        def public(self: Any, *value: Any) -> Any:
            if not _any_answers(self):
                return function(self, *value)
            return overrides._ask(getattr(made, action), (self, *value), {}, _who((self,)))

        return public

    get, put, delete = asking("__get__", plain.fget), asking("__set__", plain.fset), asking("__delete__", plain.fdel)
    made = property(get, put, delete, plain.__doc__)
    return made


def _numpys_names(function: FunctionType) -> dict[str, str]:
    """NumPy's names of arguments that ``function`` has under PyTorch's, where PyTorch's compiled one takes both."""
    if not function.__module__.startswith(_COMPILED_IN_PYTORCH):
        return {}
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {theirs: ours for theirs, ours in _NUMPYS.items() if ours in names and theirs not in names}


def _as_given(function: FunctionType) -> Any:
    any_answers, numpys = _any_answers, _numpys_names(function)
    # What classes see of the arguments; a mode sees them as they were given.
    handed_over = getattr(function, "_handed_over", tuple)

    def public(*args: Any, **kwargs: Any) -> Any:
        # Without keywords neither call builds a dictionary: nearly all calls are such.
        if not kwargs:
            if not any_answers(*args):
                return function(*args)
            return overrides._ask(public, args if overrides._n_modes() else handed_over(args), kwargs, _who(args))
        if numpys and not numpys.keys().isdisjoint(kwargs):
            kwargs = {
                name if numpys.get(name, name) in kwargs else numpys[name]: value for name, value in kwargs.items()
            }
        if not any_answers(*args, *kwargs.values()):
            return function(*args, **kwargs)
        return overrides._ask(public, args, kwargs, _who((*args, *kwargs.values())))

    return public


def _spelled_out(function: FunctionType) -> Any:
    """A wrapper with the signature of ``function`` itself, whose call is as cheap as that of a plain function."""
    plain: Any = inspect.unwrap(function)
    code = plain.__code__
    n = code.co_argcount
    keywords = code.co_varnames[n : n + code.co_kwonlyargcount]
    made = _maker(n, keywords)(function, _any_answers, _hand_over)
    made.__defaults__, made.__kwdefaults__ = plain.__defaults__, plain.__kwdefaults__
    made.__code__ = made.__code__.replace(
        co_varnames=code.co_varnames[: n + code.co_kwonlyargcount],
        co_posonlyargcount=code.co_posonlyargcount,
        co_name=code.co_name,
        co_filename=code.co_filename,
        co_firstlineno=code.co_firstlineno,
    )
    return made


def _maker(n: int, keywords: tuple[str, ...]) -> Callable[..., Any]:
    if (n, keywords) not in _makers:
        names = [f"_{i}" for i in range(n)]
        parameters = [*names, *(["*", *keywords] if keywords else [])]
        values = [*names, *keywords]
        call = [*names, *(f"{key}={key}" for key in keywords)]
        text = (
            "def make(function, any_answers, hand_over):\n"
            f" def public({', '.join(parameters)}):\n"
            f"  if any_answers({', '.join(values)}):\n"
            f"   return hand_over(public, ({''.join(f'{v}, ' for v in values)}))\n"
            f"  return function({', '.join(call)})\n"
            " return public"
        )
        scope: dict[str, Any] = {}
        exec(text, scope)
        _makers[n, keywords] = scope["make"]
    return _makers[n, keywords]


def _hand_over(public: Any, values: tuple[Any, ...]) -> Any:
    code = public.__code__
    required = code.co_argcount - len(public.__defaults__ or ())
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    named = zip(names[required:], values[required:], strict=True)
    kwargs = {name: value for name, value in named if value is not None or name not in _OURS}
    return overrides._ask(public, values[:required], kwargs, _who(values))


def _who(values: Iterable[Any]) -> list[Any]:
    """Return the arguments, and items of lists, that have a ``__torch_function__`` of their own."""
    flat: list[Any] = []
    for value in values:
        flat.extend(value if type(value) in (tuple, list) else (value,))
    return [value for value in flat if type(value) is not Tensor and _answers(type(value))]


def _answers(kind: type) -> bool:
    nothing = overrides._disabled_torch_function_impl
    return getattr(kind, "__torch_function__", nothing) is not nothing
