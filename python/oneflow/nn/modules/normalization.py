"""Layer, RMS, group and local response norm."""

from __future__ import annotations

import numbers
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn import functional as F
from oneflow.nn import init
from oneflow.nn.modules._affine import Affine
from oneflow.nn.modules.module import Module
from oneflow.nn.parameter import Parameter


class LayerNorm(Affine):
    """Normalise the trailing dimensions to mean 0 and variance 1, then scale and shift.

    Args:
        normalized_shape: sizes of the trailing dimensions, or one int for the last.
        eps: added to the variance.
        elementwise_affine: learn a scale (starts at 1) and a shift (starts at 0) of ``normalized_shape``.
        bias: False leaves the shift out.
        device, dtype: of the parameters.

    Input and output: (*, *normalized_shape). (Ba, Kiros and Hinton, "Layer Normalization", 2016.)

    Example::

        >>> nn.LayerNorm(2)(oneflow.tensor([[0.0, 2.0], [1.0, 5.0]]))
        tensor([[-1.0000,  1.0000],
                [-1.0000,  1.0000]], grad_fn=<NativeLayerNormBackward0>)
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(normalized_shape, numbers.Integral):
            normalized_shape = (normalized_shape,)
        self.normalized_shape = tuple(int(size) for size in normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._make_affine(self.normalized_shape, elementwise_affine, bias, device=device, dtype=dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divide by the root mean square over the trailing dimensions, then scale.

    Args:
        normalized_shape: sizes of the trailing dimensions, or one int for the last.
        eps: added to the mean square; None takes the dtype's machine epsilon.
        elementwise_affine: learn a scale of ``normalized_shape``, starting at 1.
        device, dtype: of the parameter.

    (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.)

    Example::

        >>> nn.RMSNorm(2)(oneflow.tensor([3.0, 4.0]))
        tensor([0.8485, 1.1314], grad_fn=<NativeRmsNormBackward0>)
    """

    weight: Tensor | None

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(normalized_shape, numbers.Integral):
            normalized_shape = (normalized_shape,)
        self.normalized_shape = tuple(int(size) for size in normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(oneflow.empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to one."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Affine):
    """Normalise groups of channels of each sample, then scale and shift each channel.

    Args:
        num_groups: it divides the number of channels.
        num_channels: channels C.
        eps: added to the variance.
        affine: learn a scale (starts at 1) and a shift (starts at 0) of each channel.
        device, dtype: of the parameters.
        bias: False leaves the shift out.

    Input and output: (N, C, *). (Wu and He, "Group Normalization", 2018.)

    Raises:
        ValueError: ``num_channels`` is not divisible by ``num_groups``.

    Example::

        >>> nn.GroupNorm(2, 4)(oneflow.ones(1, 4, 3)).shape
        oneflow.Size([1, 4, 3])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make_affine(num_channels, affine, bias, device=device, dtype=dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Divide by a power of the mean square over neighbouring channels.

    Args:
        size: neighbouring channels.
        alpha, beta, k: ``x / (k + alpha * mean) ** beta``.

    Input and output: (N, C, *). (Krizhevsky et al., "ImageNet Classification with Deep CNNs", 2012.)

    Example::

        >>> nn.LocalResponseNorm(2)(oneflow.ones(1, 3, 2)).shape
        oneflow.Size([1, 3, 2])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """Division by a power of the mean square over neighbouring channels; prefer :class:`LocalResponseNorm`.

    As in PyTorch, the first channel counts for all channels that are farther from it than half a window.

    Args:
        size: number of channels.
        alpha, beta, k: ``x / (k + alpha * mean_square) ** beta``.

    Example::

        >>> oneflow.nn.CrossMapLRN2d(3)(oneflow.ones(1, 4, 2, 2)).shape
        oneflow.Size([1, 4, 2, 2])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, H, W) in and out."""
        reach = int((self.size - 1) / 2)
        squares = input.square()
        sums = F.pad(squares, (0, 0, 0, 0, reach, reach)).unfold(1, 2 * reach + 1, 1).sum(-1)
        far = oneflow.arange(input.shape[1], device=input.device).reshape(-1, 1, 1) > reach
        sums = sums + oneflow.where(far, squares[:, :1], 0.0)
        return input * (self.k + self.alpha / self.size * sums).pow(-self.beta)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
