"""Parameters to one flat vector and back."""

from __future__ import annotations

from collections.abc import Iterable

import oneflow
from oneflow import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all parameters, flattened and joined: (total number of elements,)."""
    return oneflow.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make each parameter's data a view of its part of ``vec``, in order."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for parameter in parameters:
        n = parameter.numel()
        parameter.data = vec[start : start + n].view_as(parameter).data
        start += n
