"""Gradients of convolutions for their inputs and weights, from shapes and the gradient of the output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn import functional

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]

_Size = int | Sequence[int]


def _input(n: int, shape: Sequence[int], weight: Tensor, grad_output: Tensor, *options: Any) -> Tensor:
    # A convolution is linear in its input: at zeros its derivative is the same as anywhere.
    with oneflow.enable_grad():
        x = oneflow.zeros(tuple(shape), dtype=grad_output.dtype, device=grad_output.device, requires_grad=True)
        y = getattr(functional, f"conv{n}d")(x, weight, None, *options)
        return _pulled(y, x, grad_output, weight)


def _weight(n: int, input: Tensor, shape: Sequence[int], grad_output: Tensor, *options: Any) -> Tensor:
    with oneflow.enable_grad():
        w = oneflow.zeros(tuple(shape), dtype=grad_output.dtype, device=grad_output.device, requires_grad=True)
        y = getattr(functional, f"conv{n}d")(input, w, None, *options)
        return _pulled(y, w, grad_output, input)


def _pulled(y: Tensor, x: Tensor, grad_output: Tensor, other: Tensor) -> Tensor:
    create = grad_output.requires_grad or other.requires_grad
    return oneflow.autograd.grad(y, x, grad_output, create_graph=create)[0]


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: _Size = 1,
    padding: _Size = 0,
    dilation: _Size = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of ``conv1d`` for its input, of shape ``input_size``; options as the convolution's.

    Example::

        >>> nn.grad.conv1d_input((1, 1, 3), oneflow.ones(1, 1, 2), oneflow.ones(1, 1, 2))
        tensor([[[1., 2., 1.]]])
    """
    return _input(1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: _Size = 1,
    padding: _Size = 0,
    dilation: _Size = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of ``conv1d`` for its weight, of shape ``weight_size``; options as the convolution's.

    Example::

        >>> nn.grad.conv1d_weight(oneflow.ones(1, 1, 3), (1, 1, 2), oneflow.ones(1, 1, 2))
        tensor([[[2., 2.]]])
    """
    return _weight(1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: _Size = 1,
    padding: _Size = 0,
    dilation: _Size = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of ``conv2d`` for its input; as :func:`conv1d_input`.

    Example::

        >>> nn.grad.conv2d_input((1, 1, 2, 2), oneflow.ones(1, 1, 2, 2), oneflow.ones(1, 1, 1, 1)).sum()
        tensor(4.)
    """
    return _input(2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: _Size = 1,
    padding: _Size = 0,
    dilation: _Size = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of ``conv2d`` for its weight; as :func:`conv1d_weight`.

    Example::

        >>> nn.grad.conv2d_weight(oneflow.ones(1, 1, 2, 2), (1, 1, 1, 1), oneflow.ones(1, 1, 2, 2))
        tensor([[[[4.]]]])
    """
    return _weight(2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: _Size = 1,
    padding: _Size = 0,
    dilation: _Size = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of ``conv3d`` for its input; as :func:`conv1d_input`.

    Example::

        >>> nn.grad.conv3d_input((1, 1, 2, 2, 2), oneflow.ones(1, 1, 2, 2, 2), oneflow.ones(1, 1, 1, 1, 1)).sum()
        tensor(8.)
    """
    return _input(3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: _Size = 1,
    padding: _Size = 0,
    dilation: _Size = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of ``conv3d`` for its weight; as :func:`conv1d_weight`.

    Example::

        >>> nn.grad.conv3d_weight(oneflow.ones(1, 1, 2, 2, 2), (1, 1, 1, 1, 1), oneflow.ones(1, 1, 2, 2, 2)).item()
        8.0
    """
    return _weight(3, input, weight_size, grad_output, stride, padding, dilation, groups)
