"""Folding batch norms in evaluation mode into the layer before them."""

from __future__ import annotations

import copy
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn.parameter import Parameter


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of the convolution that computes a given one followed by a batch norm.

    Args:
        conv_w, conv_b: of the convolution.
        bn_rm, bn_rv, bn_eps, bn_w, bn_b: running mean and variance, epsilon, weight and bias of the batch norm.
        transpose: whether the convolution is transposed: its output channels are dimension 1.

    Example::

        >>> w, b = nn.utils.fuse_conv_bn_weights(oneflow.ones(2, 1, 1, 1), None, oneflow.zeros(2), oneflow.ones(2),
        ...     0.0, oneflow.ones(2) * 3, oneflow.zeros(2))
        >>> w.flatten().tolist()
        [3.0, 3.0]
    """
    bias = oneflow.zeros_like(bn_rm) if conv_b is None else conv_b
    weight = oneflow.ones_like(bn_rm) if bn_w is None else bn_w
    shift = oneflow.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = weight * oneflow.rsqrt(bn_rv + bn_eps)
    shape = [1, -1] if transpose else [-1, 1]
    fused_w = conv_w * scale.reshape(shape + [1] * (conv_w.dim() - 2)).to(conv_w.dtype)
    fused_b = ((bias - bn_rm) * scale + shift).to(bias.dtype)
    return (
        Parameter(fused_w.detach(), conv_w.requires_grad),
        Parameter(fused_b.detach(), conv_b.requires_grad if conv_b is not None else conv_w.requires_grad),
    )


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """As :func:`fuse_conv_bn_weights` for a linear layer.

    Example::

        >>> w, b = nn.utils.fuse_linear_bn_weights(oneflow.ones(2, 1), oneflow.zeros(2), oneflow.zeros(2),
        ...     oneflow.ones(2), 0.0, oneflow.ones(2) * 3, oneflow.zeros(2))
        >>> w.flatten().tolist()
        [3.0, 3.0]
    """
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return a copy of ``conv`` that does what ``conv`` and ``bn`` do. Both are in evaluation mode.

    Example::

        >>> m = nn.utils.fuse_conv_bn_eval(nn.Conv2d(3, 4, 1).eval(), nn.BatchNorm2d(4).eval())
        >>> m(oneflow.ones(1, 3, 2, 2)).shape
        oneflow.Size([1, 4, 2, 2])
    """
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("fuse_conv_bn_eval(): the batch norm keeps no running statistics")
    fused = copy.deepcopy(conv)
    statistics = (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, *statistics, transpose)
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """As :func:`fuse_conv_bn_eval` for a linear layer.

    Example::

        >>> m = nn.utils.fuse_linear_bn_eval(nn.Linear(3, 4).eval(), nn.BatchNorm1d(4).eval())
        >>> m(oneflow.ones(1, 3)).shape
        oneflow.Size([1, 4])
    """
    if linear.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    fused = copy.deepcopy(linear)
    statistics = (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, *statistics)
    return fused
