"""Custom differentiable functions. The class itself and its context are compiled."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._oneflow import Function, FunctionCtx

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the ``backward`` of a :class:`Function` that is not itself composed of differentiable calls.

    It runs without recording; differentiating what it returns raises RuntimeError.

    Example::

        >>> class Double(oneflow.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     @oneflow.autograd.function.once_differentiable
        ...     def backward(ctx, g):
        ...         return g * 2
        >>> x = oneflow.ones(1, requires_grad=True)
        >>> Double.apply(x).backward()
        >>> x.grad
        tensor([2.])
    """

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with oneflow.no_grad():
            outputs = fn(ctx, *args)
        if not oneflow.is_grad_enabled():
            return outputs
        if not any(isinstance(arg, Tensor) and arg.requires_grad for arg in args):
            return outputs
        many = isinstance(outputs, tuple)
        values = outputs if many else (outputs,)
        tensors = [v for v in values if v is not None]
        sources = [arg for arg in args if isinstance(arg, Tensor) and arg.requires_grad]
        replaced = iter(_DelayedError.apply(len(tensors), *tensors, *sources))
        made = tuple(None if v is None else next(replaced) for v in values)
        return made if many else made[0]

    return wrapper


class _DelayedError(Function):
    """Identity on the first tensors; backward is the error."""

    @staticmethod
    def forward(ctx: Any, n: int, *tensors: Tensor) -> Any:
        return tuple(t.detach() for t in tensors[:n])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


class InplaceFunction(Function):
    """A :class:`Function` that old code derives from where it may write its input.

    Args:
        inplace: kept as ``self.inplace``.

    Example::

        >>> class Double(oneflow.autograd.function.InplaceFunction):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        >>> Double(inplace=True).inplace
        True
    """

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace


def _no_vmap(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(
        "autograd.Function needs no vmap here: the ops of forward and backward run on batches by themselves"
    )


def _no_jvp(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(
        "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
    )


def _saved_variables(ctx: Any) -> Any:
    """The older name of ``saved_tensors``."""
    warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
    return ctx.saved_tensors


def _legacy_call(self: Any, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function "
        f"with static forward method: {type(self).__name__}.apply(...)"
    )


_oneflow.FunctionCtx.saved_variables = property(_saved_variables)  # type: ignore[attr-defined]
_oneflow.Function.__call__ = _legacy_call  # type: ignore[method-assign]
_oneflow.Function.vmap = staticmethod(_no_vmap)  # type: ignore[attr-defined]
_oneflow.Function.jvp = staticmethod(_no_jvp)  # type: ignore[attr-defined]
_oneflow.Function.generate_vmap_rule = False  # type: ignore[attr-defined]
