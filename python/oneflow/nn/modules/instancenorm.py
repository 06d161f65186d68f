"""Instance normalisation."""

from __future__ import annotations

import warnings
from typing import Any

from oneflow import Tensor
from oneflow.nn import functional as F
from oneflow.nn.modules.batchnorm import _NormBase


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self) -> int:
        raise NotImplementedError

    def _normalise(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        alone = input.dim() == self._get_no_batch_dim()
        channels = input.shape[input.dim() - self._get_no_batch_dim()]
        if channels != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={input.dim() - self._get_no_batch_dim()} to match num_features "
                    f"({self.num_features}), but got: {channels}."
                )
            warnings.warn(
                f"input's size at dim={input.dim() - self._get_no_batch_dim()} does not match num_features. "
                "You can silence this warning by not passing in num_features, "
                "which is not used because affine=False",
                stacklevel=2,
            )
        return self._normalise(input.unsqueeze(0)).squeeze(0) if alone else self._normalise(input)


class InstanceNorm1d(_InstanceNorm):
    """Normalise each channel of each sample, then (with ``affine``) scale and shift it.

    Args:
        num_features: channels C.
        eps: added to the variance.
        momentum: share of a batch in the running statistics.
        affine: learn a scale and a shift of each channel.
        track_running_stats: keep statistics and use them in evaluation.
        device, dtype: of parameters and buffers.

    Input and output: (N, C, L) or (C, L). (Ulyanov et al., "Instance Normalization", 2016.)

    Example::

        >>> nn.InstanceNorm1d(2)(oneflow.tensor([[[0.0, 2.0], [1.0, 5.0]]]))
        tensor([[[-1.0000,  1.0000],
                 [-1.0000,  1.0000]]])
    """

    def _get_no_batch_dim(self) -> int:
        return 2

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class InstanceNorm2d(_InstanceNorm):
    """As :class:`InstanceNorm1d`, for (N, C, H, W) or (C, H, W).

    Example::

        >>> nn.InstanceNorm2d(3)(oneflow.ones(1, 3, 2, 2)).shape
        oneflow.Size([1, 3, 2, 2])
    """

    def _get_no_batch_dim(self) -> int:
        return 3

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (3, 4):
            raise ValueError(f"expected 3D or 4D input (got {input.dim()}D input)")


class InstanceNorm3d(_InstanceNorm):
    """As :class:`InstanceNorm1d`, for (N, C, D, H, W) or (C, D, H, W).

    Example::

        >>> nn.InstanceNorm3d(3)(oneflow.ones(1, 3, 2, 2, 2)).shape
        oneflow.Size([1, 3, 2, 2, 2])
    """

    def _get_no_batch_dim(self) -> int:
        return 4

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (4, 5):
            raise ValueError(f"expected 4D or 5D input (got {input.dim()}D input)")
