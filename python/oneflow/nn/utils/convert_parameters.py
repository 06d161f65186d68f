"""Parameters to one flat vector and back."""

from __future__ import annotations

from collections.abc import Iterable

import oneflow
from oneflow import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all parameters, flattened and joined: (total number of elements,).

    Example::

        >>> nn.utils.parameters_to_vector([oneflow.ones(2), oneflow.zeros(1)])
        tensor([1., 1., 0.])
    """
    return oneflow.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make each parameter's data a view of its part of ``vec``, in order.

    Example::

        >>> w = nn.Parameter(oneflow.zeros(2))
        >>> nn.utils.vector_to_parameters(oneflow.tensor([1.0, 2.0]), [w])
        >>> w.data
        tensor([1., 2.])
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for parameter in parameters:
        n = parameter.numel()
        parameter.data = vec[start : start + n].view_as(parameter).data
        start += n
