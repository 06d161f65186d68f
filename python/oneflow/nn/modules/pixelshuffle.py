"""Channels and pixels traded for each other."""

from __future__ import annotations

from typing import Any

from oneflow import Tensor
from oneflow._extra import flat
from oneflow.nn import functional as F
from oneflow.nn.modules.module import Module


class PixelShuffle(Module):
    """(*, C r^2, H, W) to (*, C, H r, W r) with ``r = upscale_factor``. (Shi et al., 2016.)

    Args:
        upscale_factor: how many times higher and wider the result is.
        h_upscale_factor, w_upscale_factor: as in OneFlow, how many times higher and how many times wider.

    Raises:
        ValueError: neither ``upscale_factor`` nor both of the others are given.

    Example::

        >>> nn.PixelShuffle(2)(oneflow.ones(1, 4, 3, 3)).shape
        oneflow.Size([1, 1, 6, 6])
        >>> nn.PixelShuffle(h_upscale_factor=2, w_upscale_factor=1)(oneflow.ones(1, 4, 3, 3)).shape
        oneflow.Size([1, 2, 6, 3])
    """

    def __init__(
        self,
        upscale_factor: int | None = None,
        *,
        h_upscale_factor: int | None = None,
        w_upscale_factor: int | None = None,
    ) -> None:
        super().__init__()
        both = (h_upscale_factor, w_upscale_factor)
        if (upscale_factor is None) == (both == (None, None)) or both.count(None) == 1:
            raise ValueError("PixelShuffle: give upscale_factor, or h_upscale_factor and w_upscale_factor")
        self.upscale_factor: Any = upscale_factor if upscale_factor is not None else both

    def forward(self, input: Tensor) -> Tensor:
        if isinstance(self.upscale_factor, tuple):
            return flat.pixel_shuffle(input, *self.upscale_factor)
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """(*, C, H r, W r) to (*, C r^2, H, W) with ``r = downscale_factor``.

    Example::

        >>> nn.PixelUnshuffle(2)(oneflow.ones(1, 1, 4, 4)).shape
        oneflow.Size([1, 4, 2, 2])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Interleave the channels of ``groups`` groups of (N, C, *). (Zhang et al., "ShuffleNet", 2018.)

    Example::

        >>> nn.ChannelShuffle(2)(oneflow.arange(4).reshape(1, 4, 1, 1)).flatten()
        tensor([0, 2, 1, 3])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
