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


def _define_torchaudio() -> None:
    from oneflow.mock_torch._audio_library import KERNELS

    for name, kernel in KERNELS.items():
        op = _ops._defined.setdefault(name, _Settled(*name.split("::")))
        op.kernels[""] = kernel


# By package and beginning of the file's name.
_LIBRARIES: dict[tuple[str, str], Callable[[], None]] = {
    ("torchvision", "_C"): _define_torchvision,
    ("torchaudio", "_torchaudio"): _define_torchaudio,
    ("torchaudio", "libtorchaudio"): _define_torchaudio,
}


def stands_for(path: Any) -> bool:
    """Define the ops of the library at ``path``, if they are known; return whether they are."""
    path = Path(path)
    package = path.parent.parent.name if path.parent.name == "lib" else path.parent.name
    for (owner, stem), define in _LIBRARIES.items():
        if package == owner and path.name.startswith(stem):
            define()
            return True
    return False
