"""OneFlow's functions by the names of its ``_C`` module: one flat list over the package.

A name is looked up among the functions that only OneFlow has, the compiled functions, the package, ``nn.functional``
and the modules of linear algebra, transforms and special functions, in this order. What OneFlow calls an argument is
accepted beside PyTorch's name for it; functions whose arguments differ in more than names stand here or in
``_extra/flat.py``.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._extra import boxes as _boxes

_EXTRA = ("flat", "arrays", "attention", "boxes", "buffers", "elementwise", "fused", "losses", "quantization")
_PLACES = ("nn.functional", "linalg", "fft", "special", "nn.utils.rnn", "comm", "overrides")
_RENAMED = {
    "comm_broadcast": "comm.broadcast",
    "deconv1d": "nn.functional.conv_transpose1d",
    "deconv2d": "nn.functional.conv_transpose2d",
    "deconv3d": "nn.functional.conv_transpose3d",
    "grid_sample": "nn.functional.grid_sample",
}
# OneFlow's names of arguments, and which of ours each may be: the first that a function has.
_SYNONYMS = {
    "A": ("input",),
    "alpha": ("negative_slope", "lambd", "weight"),
    "depends": ("depend",),
    "epsilon": ("eps",),
    "in": ("input", "x", "inputs"),
    "indices": ("index",),
    "input": ("x", "a", "A", "tensor", "logits"),
    "input_1": ("input1",),
    "input_2": ("input2",),
    "interpolation": ("mode",),
    "interpolation_mode": ("mode",),
    "keepdim": ("keepdims",),
    "dim": ("axis",),
    "label": ("labels", "target"),
    "like": ("like_tensor",),
    "logits": ("input",),
    "ord": ("p",),
    "other": ("y",),
    "params": ("input",),
    "prediction": ("logits",),
    "repeat_shape": ("repeats",),
    "shape": ("size",),
    "training": ("train",),
    "updates": ("update",),
    "vec": ("b",),
    "weight": ("b",),
    "x": ("input", "a", "A", "x1", "tensor", "logits", "boxes_of_scores", "self"),
    "x_0": ("x0",),
    "y": ("x2", "other"),
}


def _under_oneflows_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function wrapped so that it accepts OneFlow's names of its arguments as well as its own."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        return function
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return function
    ours = {p.name for p in parameters.values() if p.kind is not p.POSITIONAL_ONLY}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not ours.issuperset(kwargs):
            named: dict[str, Any] = {}
            for name, value in kwargs.items():
                if name == "data_format" and name not in ours and value == "channels_first":
                    continue
                candidates = (name,) if name in ours else _SYNONYMS.get(name, (name,))
                own = next((c for c in candidates if c in ours and c not in kwargs), name)
                named[own] = value
            kwargs = named
        return function(*args, **kwargs)

    return call


def nms(boxes_of_scores: Tensor, iou_threshold: float, keep_n: int = -1) -> Tensor:
    """Which of the boxes (N, 4), sorted by their scores, stay: (N,) as int8. :func:`oneflow.nms` gives indices."""
    return _boxes.nms_mask(boxes_of_scores, iou_threshold)


def avg_pool2d_nhwc(x: Tensor, kernel_size: Any, *args: Any, **kwargs: Any) -> Tensor:
    """``avg_pool2d`` of images whose channels come last."""
    y = oneflow.nn.functional.avg_pool2d(x.permute(0, 3, 1, 2), kernel_size, *args, **kwargs)
    return y.permute(0, 2, 3, 1)


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scale the rows of a table that ``indices`` names down to ``max_norm``, in place."""
    from oneflow.nn.functional._embeddings import renormalise_rows

    renormalise_rows(input, indices, max_norm, norm_type)
    return input


def T(input: Tensor) -> Tensor:
    """The tensor with its dimensions in reverse order."""
    return input.T


def throw_error(x: Tensor) -> Tensor:
    """Raise RuntimeError: for tests of how errors travel."""
    raise RuntimeError("throw_error: an error that was asked for")


def _resized(
    x: Tensor, mode: str, scales: tuple[float, ...], output_size: Any, align: bool | None, order: str
) -> Tensor:
    """``interpolate`` by OneFlow's arguments."""
    last = order == "channels_last"
    x = x.movedim(-1, 1) if last else x
    scale = None if output_size is not None else [float(s) for s in scales]
    size = None if output_size is None else list(output_size)
    y = oneflow.nn.functional.interpolate(x, size, scale, mode, align)
    return y.movedim(1, -1) if last else y


def upsample_nearest_1d(
    x: Tensor, scale_factor: float = 0.0, output_size: Any = None, data_format: str = "channels_first"
) -> Tensor:
    """``interpolate`` by the nearest element."""
    return _resized(x, "nearest", (scale_factor,), output_size, None, data_format)


def upsample_nearest_2d(
    x: Tensor,
    height_scale: float = 0.0,
    width_scale: float = 0.0,
    output_size: Any = None,
    data_format: str = "channels_first",
) -> Tensor:
    """``interpolate`` by the nearest element."""
    return _resized(x, "nearest", (height_scale, width_scale), output_size, None, data_format)


def upsample_nearest_3d(
    x: Tensor,
    depth_scale: float = 0.0,
    height_scale: float = 0.0,
    width_scale: float = 0.0,
    output_size: Any = None,
    data_format: str = "channels_first",
) -> Tensor:
    """``interpolate`` by the nearest element."""
    return _resized(x, "nearest", (depth_scale, height_scale, width_scale), output_size, None, data_format)


def upsample_linear_1d(
    x: Tensor,
    scale_factor: float = 0.0,
    align_corners: bool = False,
    output_size: Any = None,
    data_format: str = "channels_first",
) -> Tensor:
    """``interpolate`` along lines."""
    return _resized(x, "linear", (scale_factor,), output_size, align_corners, data_format)


def upsample_bilinear_2d(
    x: Tensor,
    height_scale: float = 0.0,
    width_scale: float = 0.0,
    align_corners: bool = False,
    output_size: Any = None,
    data_format: str = "channels_first",
) -> Tensor:
    """``interpolate`` between four neighbours."""
    return _resized(x, "bilinear", (height_scale, width_scale), output_size, align_corners, data_format)


def upsample_bicubic_2d(
    x: Tensor,
    height_scale: float = 0.0,
    width_scale: float = 0.0,
    align_corners: bool = False,
    output_size: Any = None,
    data_format: str = "channels_first",
) -> Tensor:
    """``interpolate`` by cubic curves."""
    return _resized(x, "bicubic", (height_scale, width_scale), output_size, align_corners, data_format)


def upsample_trilinear_3d(
    x: Tensor,
    depth_scale: float = 0.0,
    height_scale: float = 0.0,
    width_scale: float = 0.0,
    align_corners: bool = False,
    output_size: Any = None,
    data_format: str = "channels_first",
) -> Tensor:
    """``interpolate`` between eight neighbours."""
    return _resized(x, "trilinear", (depth_scale, height_scale, width_scale), output_size, align_corners, data_format)


def __getattr__(name: str) -> Any:
    """Look a function up where it lives; name what is missing."""
    if name.startswith("__"):
        raise AttributeError(name)
    found = _found(name)
    if inspect.isfunction(found):
        found = globals()[name] = _under_oneflows_names(found)
    elif getattr(found, "__objclass__", None) is Tensor:
        found = globals()[name] = _of_any_tensor(found)
    return found


def _of_any_tensor(method: Any) -> Callable[..., Any]:
    """A method as a function whose tensor may be named."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not args:
            name = next((name for name in ("input", "x", "in") if name in kwargs), None)
            args = () if name is None else (kwargs.pop(name),)
        return method(*args, **kwargs)

    return call


def _found(name: str) -> Any:
    if name in _RENAMED:
        place, _, own = _RENAMED[name].rpartition(".")
        return getattr(importlib.import_module(f"oneflow.{place}"), own)
    if name.startswith("one_embedding_"):
        steps = vars(importlib.import_module("oneflow.one_embedding._steps"))
        if name in steps:
            return steps[name]
    for part in _EXTRA:
        found = vars(importlib.import_module(f"oneflow._extra.{part}")).get(name)
        if callable(found) and getattr(found, "__module__", "").startswith("oneflow._extra"):
            return found
    for held in (_oneflow._C, oneflow):
        if hasattr(held, name):
            return getattr(held, name)
    for place in _PLACES:
        module = importlib.import_module(f"oneflow.{place}")
        if hasattr(module, name):
            return getattr(module, name)
    if callable(getattr(Tensor, name, None)):
        return getattr(Tensor, name)
    raise AttributeError(
        f"module 'oneflow._C' has no attribute '{name}': oneflow {oneflow.__version__} does not provide it"
    )
