"""Switches of gradient recording, each a context manager and a decorator. The state is thread-local, in the core."""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any, TypeVar

from oneflow import _oneflow

F = TypeVar("F", bound=Callable[..., Any])
_local = threading.local()


class _DecoratorContextManager:
    """A context manager that can also decorate a function or a generator function."""

    def clone(self) -> _DecoratorContextManager:
        """Return a fresh context of the same kind: one decorated function may be entered recursively."""
        return type(self)()

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        raise NotImplementedError

    def __call__(self, function: F) -> F:
        if inspect.isclass(function):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
                "functions or methods. To preserve the current behavior of class decoration, you can directly decorate "
                "the `__init__` method and nothing else.",
                FutureWarning,
                stacklevel=2,
            )
        if inspect.isgeneratorfunction(function):
            return _wrap_generator(self.clone, function)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]


def _wrap_generator(make_context: Callable[[], _DecoratorContextManager], function: Any) -> Any:
    """Hold the context only while the generator itself runs, never while its caller does."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        resume: Callable[[], Any] = functools.partial(next, generator)
        while True:
            try:
                with make_context():
                    item = resume()
            except StopIteration as stop:
                return stop.value
            try:
                sent = yield item
            except GeneratorExit:
                with make_context():
                    generator.close()
                raise
            except BaseException as error:
                resume = functools.partial(generator.throw, error)
            else:
                resume = functools.partial(generator.send, sent)

    return wrapper


class _SwitchGrad(_DecoratorContextManager):
    mode: bool

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        if function is None:
            return self
        # ``@no_grad`` without parentheses decorates directly.
        self.__init__()  # type: ignore[misc]
        return self(function)

    def __init__(self) -> None:
        self._previous: list[bool] = []

    def __enter__(self) -> None:
        self._previous.append(_oneflow.is_grad_enabled())
        _oneflow.set_grad_enabled(self.mode)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _oneflow.set_grad_enabled(self._previous.pop())


class no_grad(_SwitchGrad):
    """Record nothing for backward inside: results have ``requires_grad=False``.

    Example::

        >>> x = oneflow.ones(2, requires_grad=True)
        >>> with oneflow.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    mode = False


class enable_grad(_SwitchGrad):
    """Record for backward again, inside a :class:`no_grad` block.

    Example::

        >>> with oneflow.no_grad(), oneflow.enable_grad():
        ...     (oneflow.ones(1, requires_grad=True) * 2).requires_grad
        True
    """

    mode = True


class set_grad_enabled(_DecoratorContextManager):
    """Set recording on or off at once; as a context manager, put the former state back at the end.

    Args:
        mode: True to record, False not to.

    Example::

        >>> with oneflow.set_grad_enabled(False):
        ...     (oneflow.ones(1, requires_grad=True) * 2).requires_grad
        False
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self._previous = _oneflow.is_grad_enabled()
        _oneflow.set_grad_enabled(self.mode)

    def __call__(self, function: F) -> F:
        # As a decorator it must not stay switched after the definition.
        _oneflow.set_grad_enabled(self._previous)
        return super().__call__(function)

    def clone(self) -> set_grad_enabled:
        return type(self)(self.mode)

    def __enter__(self) -> None:
        _oneflow.set_grad_enabled(self.mode)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _oneflow.set_grad_enabled(self._previous)


class inference_mode(_DecoratorContextManager):
    """Record nothing and track no versions inside: as :class:`no_grad`, and results may never enter a recorded program.

    Args:
        mode: False leaves inference mode inside the block.

    Example::

        >>> with oneflow.inference_mode():
        ...     (oneflow.ones(1, requires_grad=True) * 2).requires_grad
        False
    """

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self._previous: list[tuple[bool, bool]] = []

    def clone(self) -> inference_mode:
        return type(self)(self.mode)

    def __enter__(self) -> None:
        self._previous.append((_oneflow.is_grad_enabled(), _oneflow.is_inference_mode_enabled()))
        _oneflow._set_inference_mode(self.mode)
        _oneflow.set_grad_enabled(not self.mode)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        grad, inference = self._previous.pop()
        _oneflow._set_inference_mode(inference)
        _oneflow.set_grad_enabled(grad)


class set_multithreading_enabled(_DecoratorContextManager):
    """Say whether a backward may use several threads: here it runs on the thread that calls it, either way.

    Takes effect at once, and for a ``with`` block where it is one.

    Example::

        >>> with oneflow.autograd.set_multithreading_enabled(False):
        ...     oneflow.autograd.is_multithreading_enabled()
        False
    """

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self._previous = is_multithreading_enabled()
        _local.multithreading = mode

    def clone(self) -> set_multithreading_enabled:
        return type(self)(self.mode)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _local.multithreading = self._previous


def is_multithreading_enabled() -> bool:
    """Return what :class:`set_multithreading_enabled` said last in this thread; True at first.

    Example::

        >>> oneflow.autograd.is_multithreading_enabled()
        True
    """
    return getattr(_local, "multithreading", True)
