"""Parameter and Buffer: tensors that a Module recognises when they are assigned to it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import oneflow
from oneflow import Tensor


class Parameter(Tensor):
    """A tensor that a :class:`~oneflow.nn.Module` lists among its parameters.

    Args:
        data: a tensor of any shape; its memory is shared. None makes an empty one.
        requires_grad: whether backward fills ``.grad``.

    Example::

        >>> weight = oneflow.nn.Parameter(oneflow.zeros(2, 3))
        >>> weight.requires_grad
        True
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = oneflow.empty(0)
        return Tensor._make_subclass(cls, data.detach(), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]
        copy = type(self)(self.data.clone(), self.requires_grad)
        memo[id(self)] = copy
        return copy

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        state = dict(self.__dict__)
        if state:
            return _rebuild_parameter_with_state, (self.data, self.requires_grad, OrderedDict(), state)
        return _rebuild_parameter, (self.data, self.requires_grad, OrderedDict())


class Buffer(Tensor):
    """A tensor that a Module lists among its buffers when it is assigned.

    Args:
        data: a tensor of any shape. None makes an empty one.
        persistent: whether ``state_dict`` holds it.
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = oneflow.empty(0)
        buffer = Tensor._make_subclass(cls, data.detach(), data.requires_grad)
        buffer.persistent = persistent
        return buffer


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Parameter:
    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any) -> Parameter:
    parameter = Parameter(data, requires_grad)
    for key, value in state.items():
        setattr(parameter, key, value)
    return parameter
