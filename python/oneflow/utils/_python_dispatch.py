"""Modes and classes that stand for ops below autograd, under the names by which PyTorch calls them.

A class of tensors that defines ``__torch_dispatch__`` is asked about every op that one of its tensors is part of.
Tensors of ``Tensor._make_wrapper_subclass`` have no memory: their class alone gives them a meaning.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from oneflow import Tensor, _oneflow, no_grad
from oneflow.utils._aten_names import ops_module, spelled, spelled_alone

if TYPE_CHECKING:
    from oneflow._ops import OpOverload

__all__ = [
    "TorchDispatchMode",
    "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type",
    "return_and_correct_aliasing",
]

_C = _oneflow._C


class TorchDispatchMode:
    """A context manager whose ``__torch_dispatch__`` stands for every op that this thread runs inside, below autograd.

    It gets an op (``ops.aten.addmm.default``), no types, and the op's arguments, and returns the results: those of
    ``func(*args, **kwargs)``, or others of the same shapes and dtypes, which autograd takes for the op's. Ops of
    backward are heard too. Inside the method the mode is off; modes that were entered before hear what it calls.

    Functions of several steps are heard as PyTorch's steps where these have names, their shapes apart: ``linear`` as
    ``addmm`` of matrices, ``matmul`` as ``mm`` or ``bmm``. Ops that PyTorch lacks are heard under names of their own,
    and run when they are called with the arguments that were given.

    Example::

        >>> from oneflow.utils._python_dispatch import TorchDispatchMode
        >>> class Names(TorchDispatchMode):
        ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        ...         print(func)
        ...         return func(*args, **(kwargs or {}))
        >>> x = oneflow.ones(2, requires_grad=True)
        >>> with Names():
        ...     y = (x * 2).relu()
        aten.mul.Tensor
        aten.relu.default
        >>> y.requires_grad
        True
    """

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __torch_dispatch__")

    def __enter__(self) -> Any:
        _modes().append(self)
        _C._push_interceptor(functools.partial(_around, self))
        ops_module().listeners().append(functools.partial(_custom, self))
        return self

    def __exit__(self, *exception: object) -> None:
        ops_module().listeners().pop()
        _C._pop_interceptor()
        _modes().pop()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a mode, to be entered; an older name of calling the class."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        return False


_local = threading.local()


def _modes() -> list[TorchDispatchMode]:
    found: list[TorchDispatchMode] | None = getattr(_local, "modes", None)
    if found is None:
        found = _local.modes = []
    return found


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    return _modes()[-1] if _modes() else None


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    return list(_modes())


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[TorchDispatchMode]]:
    """Leave all modes of this thread inside a block."""
    left = _get_current_dispatch_mode_stack()
    for mode in reversed(left):
        mode.__exit__(None, None, None)
    try:
        yield left
    finally:
        for mode in left:
            mode.__enter__()


class _DisableTorchDispatch:
    """While it lives, classes of this thread answer no op: a tensor of one that has memory is a tensor like others."""

    def __init__(self) -> None:
        self._before: bool | None = _C._enable_dispatch(False)

    def end(self) -> None:
        """Let classes answer again, as before."""
        if self._before is not None:
            _C._enable_dispatch(self._before)
            self._before = None

    __del__ = end

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        self.end()


def is_traceable_wrapper_subclass_type(kind: type) -> bool:
    """Return whether a class says of which tensors its own consist (``__tensor_flatten__``) and is made of them."""
    made = (getattr(kind, name, None) for name in ("__tensor_flatten__", "__tensor_unflatten__"))
    return kind is not Tensor and issubclass(kind, Tensor) and all(map(callable, made))


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Return whether ``t`` is a tensor of such a class, see :func:`is_traceable_wrapper_subclass_type`."""
    return is_traceable_wrapper_subclass_type(type(t))


def return_and_correct_aliasing(func: Any, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> Any:
    """What ``__torch_dispatch__`` of a class without memory should return for ``out``, the result that it computed.

    Args:
        func: the op.
        args, kwargs: its arguments.
        out: the result.

    Returns:
        the tensor that an op writes, in place or as ``out=``; for other ops ``out`` itself.
    """
    name = func.overloadpacket.__name__
    if name.endswith("_") and not name.endswith("__"):
        return args[0]
    return kwargs["out"] if kwargs and kwargs.get("out") is not None else out


def _ask_classes(
    name: str,
    given: dict[str, Any],
    written: list[Tensor] | None,
    run: Callable[[], list[Tensor]] | None,
    classes: tuple[type, ...],
) -> Any:
    """The results of an op that the classes of its operands answer, or None for those that ``run()`` gave.

    Without ``run`` the function is none of the table (``detach``, ``item``), and its result is returned as it is.
    """
    made: list[Tensor] | None = None

    def heard(op: OpOverload, args: Any, kwargs: Any) -> Any:
        nonlocal made
        if op is not call.op or not _same(args, call.args) or not _same(kwargs, call.kwargs):
            return call.anew(op, args, kwargs)
        if run is None:
            with _DisableTorchDispatch():
                return op._op(*args, **kwargs)
        if made is not None:
            return call.anew(op, args, kwargs)
        made = run()
        return call.result(made)

    with no_grad():
        call = spelled(name, given, written) if run is not None else spelled_alone(name, given)
        if run is not None and not _holds(classes, (call.args, call.kwargs)):
            # The class made ordinary tensors of its own where the call was put into PyTorch's words (`weight.t()`).
            return call.results(call.op(*call.args, **call.kwargs))
        calls = ops_module().heard_calls()
        calls.append(heard)
        try:
            result = _first_answer(call.op, classes, call.args, call.kwargs)
        finally:
            calls.pop()
        if run is None:
            return result
        results = call.results(result)
    if made is not None and len(results) == len(made) and all(map(operator.is_, results, made)):
        return None
    return results


def _holds(classes: tuple[type, ...], nest: Any) -> bool:
    """Whether a nest holds an object of one of the classes."""
    if isinstance(nest, dict):
        return any(_holds(classes, value) for value in nest.values())
    return any(_holds(classes, v) for v in nest) if isinstance(nest, (tuple, list)) else isinstance(nest, classes)


def _first_answer(op: OpOverload, classes: tuple[type, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    for kind in classes:
        ask: Any = getattr(kind, "__torch_dispatch__", None)
        answer = NotImplemented if ask is None else ask(op, classes, args, kwargs)
        if answer is not NotImplemented:
            return answer
    raise TypeError(
        f"Multiple dispatch failed for '{op}'; all __torch_dispatch__ handlers returned NotImplemented: "
        + ", ".join(f"tensor subclass {kind}" for kind in classes)
    )


def _around(
    mode: TorchDispatchMode,
    name: str,
    given: dict[str, Any],
    written: list[Tensor] | None,
    run: Callable[[], list[Tensor]],
) -> Sequence[Tensor] | None:
    if mode not in _modes():
        # The kernel of an op that a program defined, which this mode has heard as a whole.
        return None
    call = spelled(name, given, written)
    made: list[Tensor] | None = None

    def heard(op: OpOverload, args: Any, kwargs: Any) -> Any:
        nonlocal made
        if made is not None or op is not call.op or not _same(args, call.args) or not _same(kwargs, call.kwargs):
            return call.anew(op, args, kwargs)
        made = run()
        return call.result(made)

    with no_grad(), _asked(mode, heard):
        result = mode.__torch_dispatch__(call.op, (), call.args, call.kwargs)
    results = call.results(result)
    if made is not None and len(results) == len(made) and all(map(operator.is_, results, made)):
        return None
    return results


def _custom(mode: TorchDispatchMode, op: OpOverload, kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """An op that a program defined."""

    def heard(called: OpOverload, more: Any, named: Any) -> Any:
        return kernel(*more, **named) if called is op else NotImplemented

    with _asked(mode, heard):
        return mode.__torch_dispatch__(op, (), args, kwargs)


@contextlib.contextmanager
def _asked(mode: TorchDispatchMode, heard: Callable[..., Any]) -> Iterator[None]:
    """While a mode answers, it and those that were entered after it hear nothing, and its op runs by ``heard``."""
    stack, listeners, calls = _modes(), ops_module().listeners(), ops_module().heard_calls()
    left, place = listeners[:], stack.index(mode)
    own = (x for x, listener in enumerate(left) if getattr(listener, "args", ())[:1] == (mode,))
    del listeners[next(own) :]
    _local.modes = stack[:place]
    calls.append(heard)
    try:
        yield
    finally:
        calls.pop()
        _local.modes = stack
        listeners[:] = left


def _same(a: Any, b: Any) -> bool:
    """Whether two nests hold the same objects."""
    if a is b:
        return True
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(value, b[key]) for key, value in a.items())
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(_same, a, b))
    return not isinstance(a, Tensor) and not isinstance(b, Tensor) and type(a) is type(b) and a == b
