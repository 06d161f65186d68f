"""Resizing."""

from __future__ import annotations

from typing import Any

from oneflow import Tensor
from oneflow.nn import functional as F
from oneflow.nn.modules.module import Module


class Upsample(Module):
    """Resize the spatial dimensions; see :func:`oneflow.nn.functional.interpolate`.

    Args:
        size: output sizes, or
        scale_factor: output elements an input element.
        mode: "nearest", "linear", "bilinear", "bicubic" or "trilinear".
        align_corners: corners keep their values.
        recompute_scale_factor: compute positions from the rounded sizes instead of the given factors.

    Input: (N, C, L), (N, C, H, W) or (N, C, D, H, W).

    Example::

        >>> nn.Upsample(scale_factor=2)(oneflow.arange(2.0).reshape(1, 1, 2))
        tensor([[[0., 0., 1., 1.]]])
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        what = f"scale_factor={self.scale_factor!r}" if self.scale_factor is not None else f"size={self.size!r}"
        return f"{what}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Nearest neighbours of (N, C, H, W).

    Example::

        >>> nn.UpsamplingNearest2d(scale_factor=2)(oneflow.ones(1, 1, 2, 2)).shape
        oneflow.Size([1, 1, 4, 4])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Bilinear, with aligned corners, of (N, C, H, W).

    Example::

        >>> nn.UpsamplingBilinear2d(scale_factor=2)(oneflow.ones(1, 1, 2, 2)).shape
        oneflow.Size([1, 1, 4, 4])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
