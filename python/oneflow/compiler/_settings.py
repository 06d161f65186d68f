"""Settings of compiled functions: backends, modes, stances, and which functions are not compiled."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from oneflow import _oneflow
from oneflow.nn.modules.module import Module

_MODES = ("default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
# Backends of PyTorch's that run Python as it is, and those in whose place the one here compiles.
_EAGER = ("eager", "eager_noexcept", "eager_debug", "pre_dispatch_eager")
_COMPILE = ("oneflow", "inductor", "aot_eager", "aot_ts", "cudagraphs", "onnxrt", "openxla", "tensorrt", "ts", "tvm")
_STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")
_stance = "default"
_backend = "oneflow"
_thread = threading.local()


def check_mode(mode: str | None, options: dict[str, Any] | None) -> None:
    """Check two arguments of ``compile``.

    Raises:
        RuntimeError: both are given, or the mode is unknown.
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")


def runs_python(backend: Any) -> bool:
    """Return whether a backend runs Python as it is, rather than compile.

    Raises:
        NotImplementedError: it is a function.
        RuntimeError: an unknown name.
    """
    backend = _backend if backend is None else backend
    if not isinstance(backend, str):
        raise NotImplementedError("compile(): a backend is given by name: there is no FX graph to call a function with")
    if backend not in _EAGER + _COMPILE:
        raise RuntimeError(f"Invalid backend: {backend!r}: expected one of {', '.join(_COMPILE + _EAGER)}")
    return backend in _EAGER


def stance() -> str:
    """How compiled functions run now."""
    return _stance


def set_compiling(on: bool) -> None:
    """Say whether this thread traces for ``compile``, as opposed to a graph."""
    _thread.compiles = on


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Let ``fn`` run as Python in every call: a compiled function that calls it runs eagerly, and warns.

    Graphs trace it, as they do everything that ``build`` calls.

    Args:
        fn: a function or a module.
        recursive: accepted: what ``fn`` calls runs eagerly too.
        reason: part of the warning.

    Example::

        >>> oneflow.compiler.disable(lambda x: x + 1)(1)
        2
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, type):
        return fn
    name = getattr(fn, "__qualname__", type(fn).__name__)
    text = f"{name} is marked with compiler.disable()" + (f": {reason}" if reason else "")
    if isinstance(fn, Module):
        fn.register_forward_pre_hook(functools.partial(_refuse_to_compile, text))
        return fn

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        _refuse_to_compile(text)
        return fn(*args, **kwargs)

    return call


def _refuse_to_compile(text: str, *_: Any) -> None:
    if getattr(_thread, "compiles", False):
        raise NotImplementedError(text)


def is_compiling() -> bool:
    """Return whether this thread is tracing a function or a graph.

    Example::

        >>> oneflow.compiler.is_compiling()
        False
    """
    return bool(_oneflow._is_tracing())


is_dynamo_compiling = is_compiling


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """Return the names of backends that compile.

    Example::

        >>> isinstance(oneflow.compiler.list_backends(), list)
        True
    """
    return ["oneflow"]


def get_default_backend() -> str:
    """Return the backend of :func:`compile` calls that name none.

    Example::

        >>> oneflow.compiler.get_default_backend()
        'oneflow'
    """
    return _backend


def set_default_backend(backend: str | None) -> None:
    """Choose the backend of :func:`compile` calls that name none; None is "oneflow".

    Raises:
        RuntimeError: an unknown backend.

    Example::

        >>> oneflow.compiler.set_default_backend(None)
    """
    global _backend
    runs_python(backend or "oneflow")
    _backend = backend or "oneflow"


def cudagraph_mark_step_begin() -> None:
    """Do nothing: results keep their memory, though programs on a GPU are issued as captured graphs.

    Example::

        >>> oneflow.compiler.cudagraph_mark_step_begin()
    """


class set_stance:
    """Choose how compiled functions run. A function, a context manager and a decorator.

    Args:
        stance: "default" compiles for every new kind of input; "force_eager" runs Python as it is;
            "eager_on_recompile" runs what is compiled already, and all else eagerly; "fail_on_recompile" raises there.
        skip_guard_eval_unsafe: accepted; what a program is for is looked at in every call.
        force_backend: "eager" is the stance "force_eager", and goes with "default" only.

    Raises:
        RuntimeError: another stance, or an unknown backend.

    Example::

        >>> with oneflow.compiler.set_stance("force_eager"):
        ...     oneflow.compile(lambda x: x + 1)(oneflow.ones(1))
        tensor([2.])
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: str | None = None
    ) -> None:
        global _stance
        if force_backend is not None:
            if stance != "default":
                raise RuntimeError("set_stance(): force_backend is allowed with the stance 'default' only")
            stance = "force_eager" if runs_python(force_backend) else stance
        if stance not in _STANCES:
            raise RuntimeError(f"set_stance(): invalid stance {stance!r}: expected one of {', '.join(_STANCES)}")
        self._before, self._stance = _stance, stance
        _stance = stance

    def __enter__(self) -> None:
        global _stance
        _stance = self._stance

    def __exit__(self, *_: Any) -> None:
        global _stance
        _stance = self._before

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        self.__exit__()

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self._stance):
                return fn(*args, **kwargs)

        return call
