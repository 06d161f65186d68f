"""``Variable``: PyTorch's old constructor of tensors that record gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow import Tensor, _oneflow


class _VariableType(type):
    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, Tensor)


class _Engine:
    """The engine, as libraries use it: to queue a callback that runs when a backward has ended."""

    @staticmethod
    def queue_callback(callback: Callable[[], Any]) -> None:
        """Call ``callback`` when the backward that runs on this thread has ended."""
        _oneflow._C._queue_callback(callback)


class Variable(metaclass=_VariableType):
    """``Variable(tensor, requires_grad=False)`` returns a tensor over the same data.

    Example::

        >>> oneflow.autograd.Variable(oneflow.ones(1), requires_grad=True).requires_grad
        True
    """

    _execution_engine = _Engine()

    def __new__(cls, data: Tensor, requires_grad: bool = False, volatile: bool = False) -> Any:
        tensor = data.detach()
        return tensor.requires_grad_(requires_grad)
