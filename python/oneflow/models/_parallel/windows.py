"""Attention within windows of images: masks of shifted windows follow from sizes alone, and are whole on each rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow import Tensor, nn
from oneflow.distributed.tensor import _layouts
from oneflow.models._parallel.axes import Axes
from oneflow.models.swin import WindowAttention

__all__ = ["place_seams"]


def place_seams(model: nn.Module, axes: Axes) -> None:
    """Let the masks of shifted windows be global tensors, as what they are added to is."""
    for module in model.modules():
        if isinstance(module, WindowAttention):
            module._seam = _placed(module._seam, axes)  # type: ignore[method-assign]


def _placed(seam: Callable[..., Tensor], axes: Axes) -> Callable[..., Tensor]:
    def placed(*args: Any) -> Tensor:
        mask = seam(*args)
        return _layouts.assemble(mask, axes.placement, axes.layout(), mask.shape)

    return placed
