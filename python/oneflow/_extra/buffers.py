"""Conversions between a batch and tensors that differ in size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor


def tensor_to_tensor_buffer(input: Tensor, instance_dims: int) -> Any:
    """A buffer of the parts of a tensor that have its last ``instance_dims`` dimensions.

    Example::

        >>> len(oneflow.tensor_to_tensor_buffer(oneflow.ones(4, 2, 3), instance_dims=2))
        4
    """
    if not 0 <= instance_dims < input.dim():
        raise RuntimeError(
            f"tensor_to_tensor_buffer: instance_dims must be below the tensor's {input.dim()} dimensions, "
            f"not {instance_dims}"
        )
    n = input.dim() - instance_dims
    buffer = oneflow.nn.TensorBuffer(input.reshape(-1, *input.shape[n:]).unbind(0))
    buffer._batch = tuple(input.shape[:n])
    return buffer


def tensor_buffer_to_tensor(input: Any, dtype: oneflow.dtype, instance_shape: Sequence[int]) -> Tensor:
    """The tensors of a buffer, which have one shape and dtype, as one tensor.

    Example::

        >>> buffer = oneflow.tensor_to_tensor_buffer(oneflow.ones(4, 2), instance_dims=1)
        >>> oneflow.tensor_buffer_to_tensor(buffer, oneflow.float32, (2,)).shape
        oneflow.Size([4, 2])
    """
    for item in input:
        if tuple(item.shape) != tuple(instance_shape) or item.dtype != dtype:
            raise RuntimeError(
                f"tensor_buffer_to_tensor: expected tensors of shape {tuple(instance_shape)} and {dtype}, "
                f"got {tuple(item.shape)} and {item.dtype}"
            )
    return oneflow.stack(list(input)).reshape(*input.shape, *instance_shape)


def gen_tensor_buffer(
    shape: Sequence[int],
    shape_list: Sequence[Sequence[int]],
    value_list: Sequence[float],
    data_type: oneflow.dtype = oneflow.float32,
    dynamic_out: bool = False,
) -> Any:
    """A buffer of constant tensors: each with its shape and its value.

    Example::

        >>> oneflow.gen_tensor_buffer((2,), [(1,), (2,)], [0.0, 1.0])[1]
        tensor([1., 1.])
    """
    if len(shape_list) != len(value_list):
        raise RuntimeError(f"gen_tensor_buffer: {len(shape_list)} shapes and {len(value_list)} values")
    pairs = zip(shape_list, value_list, strict=True)
    return oneflow.nn.TensorBuffer(oneflow.full(tuple(s), v, dtype=data_type) for s, v in pairs)
