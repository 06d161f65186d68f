"""``Variable``: the old name under which tensors that record were made."""

from __future__ import annotations

from typing import Any

from oneflow import Tensor


class _VariableType(type):
    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, Tensor)


class Variable(metaclass=_VariableType):
    """``Variable(tensor, requires_grad=False)`` returns a tensor over the same data.

    Example::

        >>> oneflow.autograd.Variable(oneflow.ones(1), requires_grad=True).requires_grad
        True
    """

    def __new__(cls, data: Tensor, requires_grad: bool = False, volatile: bool = False) -> Any:
        tensor = data.detach()
        return tensor.requires_grad_(requires_grad)
