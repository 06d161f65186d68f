"""Ops that packages bring in libraries compiled for PyTorch, and that oneflow has as compositions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from oneflow import Tensor, _ops
from oneflow._extra import boxes


class _Settled(_ops.Op):
    """An op that is differentiated by what it calls: what the package registers besides is for its own kernel."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("backward", "setup_context") or value is None:
            super().__setattr__(name, value)


def _deform_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    sizes = (stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w)
    return boxes.deform_conv2d(input, offset, weight, bias, *sizes, mask if use_mask else None)


_TORCHVISION: dict[str, Callable[..., Any]] = {
    "nms": boxes.nms,
    "roi_align": boxes.roi_align,
    "deform_conv2d": _deform_conv2d,
    "_cuda_version": lambda: -1,
}
# Defined when the package is imported; calling one raises an error that there is no kernel.
_WITHOUT = "roi_pool ps_roi_align ps_roi_pool qroi_align"


def _define_torchvision() -> None:
    names = [*_TORCHVISION, *_WITHOUT.split()]
    for name in [*names, *(f"_{name}_backward" for name in names if not name.startswith("_"))]:
        op = _ops._defined.setdefault(f"torchvision::{name}", _Settled("torchvision", name))
        if name in _TORCHVISION:
            op.kernels[""] = _TORCHVISION[name]


def stands_for(path: Any) -> bool:
    """Define the ops of the library at ``path``, if they are known; return whether they are."""
    known = Path(path).parent.name == "torchvision" and Path(path).name.startswith("_C")
    if known:
        _define_torchvision()
    return known
