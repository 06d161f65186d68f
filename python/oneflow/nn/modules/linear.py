"""Linear, Identity."""

from __future__ import annotations

import math
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn import functional as F
from oneflow.nn import init
from oneflow.nn.modules.module import Module
from oneflow.nn.parameter import Parameter


class Identity(Module):
    """Return the input as it is. Arguments are accepted and ignored, so that it can replace any layer.

    Example::

        >>> nn.Identity()(oneflow.ones(2))
        tensor([1., 1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """``y = x @ weight.T + bias``.

    Args:
        in_features: size of the last dimension of the input, (*, in_features).
        out_features: size of the last dimension of the output, (*, out_features).
        bias: False leaves the bias out.
        device, dtype: of the parameters.

    Weight and bias start uniform in +-1/sqrt(in_features).

    Example::

        >>> oneflow.nn.Linear(20, 30)(oneflow.zeros(128, 20)).shape
        oneflow.Size([128, 30])
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(oneflow.empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(oneflow.empty((out_features,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias again."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.weight.shape[1]
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """Linear under the name that checkpoints and listings of attention use.

    Example::

        >>> type(nn.MultiheadAttention(4, 2).out_proj).__name__
        'NonDynamicallyQuantizableLinear'
    """
