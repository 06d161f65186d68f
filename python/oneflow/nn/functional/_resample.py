"""Resizing, sampling at positions, padding and rearranging of images, composed around one resampling op."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base import wording
from oneflow._base.amp import widened_on_host
from oneflow._base.global_layouts import replicate_like

_KINDS = {
    "nearest": ("nearest", (3, 4, 5)),
    "nearest-exact": ("nearest-exact", (3, 4, 5)),
    "area": ("area", (3, 4, 5)),
    "linear": ("linear", (3,)),
    "bilinear": ("linear", (4,)),
    "trilinear": ("linear", (5,)),
    "bicubic": ("cubic", (4,)),
}


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize the spatial dimensions of ``input`` (N, C, L), (N, C, H, W) or (N, C, D, H, W).

    Args:
        size: output sizes, or one int for all; excludes ``scale_factor``.
        scale_factor: output elements an input element, one for all dimensions or one each.
        mode: "nearest", "nearest-exact", "linear" (3-D), "bilinear", "bicubic" (4-D), "trilinear" (5-D) or "area".
        align_corners: corners keep their values (the linear and cubic modes).
        recompute_scale_factor: compute positions from the rounded sizes instead of the given factors.
        antialias: "bilinear" and "bicubic" average over all elements that one of a smaller result covers.

    Raises:
        ValueError, NotImplementedError: options do not fit each other or the input.

    Example::

        >>> F.interpolate(oneflow.tensor([[[0.0, 2.0]]]), scale_factor=2)
        tensor([[[0., 0., 2., 2.]]])
        >>> F.interpolate(oneflow.ones(1, 1, 4, 4), size=(2, 2), mode="bilinear").shape
        oneflow.Size([1, 1, 2, 2])
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: "
                "linear | bilinear | bicubic | trilinear"
            )
    elif align_corners is None:
        align_corners = False
    n_dims = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    factors: list[float] | None = None
    if size is not None:
        sizes = list(size) if isinstance(size, (list, tuple)) else [int(size)] * n_dims
        if len(sizes) != n_dims:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {list(input.shape[2:])} and output size of {size}. Please provide input tensor in "
                "(N, C, d1, d2, ...,dK) format and output size in (o1, o2, ...,oK) format."
            )
    elif scale_factor is not None:
        factors = (
            [float(f) for f in scale_factor]
            if isinstance(scale_factor, (list, tuple))
            else [float(scale_factor)] * n_dims
        )
        if len(factors) != n_dims:
            raise ValueError(
                "Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {list(input.shape[2:])} and scale_factor of shape {scale_factor}. Please provide input "
                "tensor in (N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format."
            )
        # A product of integers is one that a trace at several sizes can follow.
        spatial = zip(input.shape[2:], factors, strict=True)
        sizes = [n * int(f) if f.is_integer() else math.floor(float(n) * f) for n, f in spatial]
    else:
        raise ValueError("either size or scale_factor should be defined")
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if mode == "area" or recompute_scale_factor:
        factors = None
    if antialias and not (mode in ("bilinear", "bicubic") and input.ndim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )
    if mode not in _KINDS or input.dim() not in _KINDS[mode][1]:
        if mode in _KINDS and input.dim() in (3, 4, 5):
            raise NotImplementedError(f"Got {input.dim()}D input, but {mode} mode needs {_KINDS[mode][1][0]}D input")
        raise NotImplementedError(
            "Input Error: Only 3D, 4D and 5D input Tensors supported (got "
            f"{input.dim()}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact "
            f"(got {mode})"
        )
    scales = None if factors is None else [1.0 / f if f > 0 else 0.0 for f in factors]
    kind = _KINDS[mode][0]
    if input.dtype != oneflow.uint8:
        return _oneflow._C.resample(input, sizes, kind, bool(align_corners), antialias, scales)
    output = _oneflow._C.resample(input.float(), sizes, kind, bool(align_corners), antialias, scales)
    return output.round().clamp(0, 255).to(oneflow.uint8)


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """Deprecated name of :func:`interpolate`.

    Example::

        >>> F.interpolate(oneflow.tensor([[[0.0, 2.0]]]), scale_factor=2)  # instead
        tensor([[[0., 0., 2., 2.]]])
    """
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=3)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Deprecated: :func:`interpolate` with mode "nearest".

    Example::

        >>> F.interpolate(oneflow.ones(1, 1, 2, 2), scale_factor=2).shape  # instead
        oneflow.Size([1, 1, 4, 4])
    """
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=3
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Deprecated: :func:`interpolate` with mode "bilinear" and aligned corners.

    Example::

        >>> F.interpolate(oneflow.ones(1, 1, 2, 2), scale_factor=2, mode="bilinear").shape  # instead
        oneflow.Size([1, 1, 4, 4])
    """
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=3
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# ---- padding


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Widen dimensions, the last first: ``pad = (left, right, top, bottom, ...)``. Negative widths cut.

    Args:
        input: any shape with at least ``len(pad) / 2`` dimensions; the other modes take the last 1 to 3 of an input
            with a channel dimension and perhaps a batch dimension before them.
        mode: "constant", "reflect" (without repeating the border), "replicate" or "circular".
        value: the new elements of mode "constant", 0 by default.

    Raises:
        RuntimeError, NotImplementedError: widths, mode and input do not fit.

    Example::

        >>> F.pad(oneflow.tensor([[1.0, 2.0]]), (1, 2), value=9.0)
        tensor([[9., 1., 2., 9., 9.]])
    """
    pad = [int(p) for p in pad]
    if len(pad) % 2:
        raise wording.error(
            RuntimeError,
            f"Padding length must be divisible by 2, but got {len(pad)} for an input of dimension {input.dim()}",
        )
    if len(pad) // 2 > input.dim():
        raise wording.error(
            RuntimeError,
            f"Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {input.dim()}",
        )
    if mode == "constant":
        return _oneflow._C.pad_nd(input, pad, mode, 0 if value is None else value)
    if value:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in ("reflect", "replicate", "circular"):
        raise wording.error(NotImplementedError, f"Unrecognised padding mode {mode}")
    n_dims = len(pad) // 2
    if len(pad) not in (2, 4, 6) or input.dim() not in (n_dims + 1, n_dims + 2):
        raise NotImplementedError(
            "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now, "
            f"got an input {list(input.shape)} and {len(pad)} widths"
        )
    # PyTorch's autocast lists all of these for the host but reflection of volumes.
    if mode == "replicate" or (mode == "reflect" and n_dims < 3):
        input = widened_on_host(input)
    return _oneflow._C.pad_nd(input if mode == "circular" else _oneflow._C.straight(input), pad, mode)


# ---- rearranging


def _in_format_of(input: Tensor, result: Tensor) -> Tensor:
    """The result in the memory format of the input."""
    order = {4: oneflow.channels_last, 5: oneflow.channels_last_3d}.get(input.dim())
    if order is None or input.is_contiguous() or not input.is_contiguous(memory_format=order):
        order = oneflow.contiguous_format
    return result.contiguous(memory_format=order)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(*, C r^2, H, W) to (*, C, H r, W r): channels become pixels. (Shi et al., 2016.)

    Example::

        >>> F.pixel_shuffle(oneflow.ones(1, 4, 3, 3), 2).shape
        oneflow.Size([1, 1, 6, 6])
    """
    r = operator.index(upscale_factor)
    if input.dim() < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.dim()} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    if r * r >= 2**63:
        raise ValueError(f"pixel_shuffle: upscale_factor={r} is too large, its square overflows")
    *lead, channels, height, width = input.shape
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    n = len(lead)
    split = input.reshape(*lead, channels // (r * r), r, r, height, width)
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return _in_format_of(input, split.permute(order).reshape(*lead, channels // (r * r), height * r, width * r))


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(*, C, H r, W r) to (*, C r^2, H, W): the inverse of :func:`pixel_shuffle`.

    Example::

        >>> F.pixel_unshuffle(oneflow.ones(1, 1, 4, 4), 2).shape
        oneflow.Size([1, 4, 2, 2])
    """
    r = operator.index(downscale_factor)
    if input.dim() < 3:
        raise RuntimeError(
            "pixel_unshuffle expects input to have at least 3 dimensions, but got input with "
            f"{input.dim()} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, channels, height, width = input.shape
    for name, at, n in (("height", -2, height), ("width", -1, width)):
        if n % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but input.size({at})={n} is not "
                f"divisible by {r}"
            )
    n = len(lead)
    split = input.reshape(*lead, channels, height // r, r, width // r, r)
    order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    return _in_format_of(input, split.permute(order).reshape(*lead, channels * r * r, height // r, width // r))


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """(N, C, *) with the channels of ``groups`` groups interleaved. (Zhang et al., "ShuffleNet", 2018.)

    Example::

        >>> oneflow.channel_shuffle(oneflow.arange(4).reshape(1, 4, 1, 1), 2).flatten()
        tensor([0, 2, 1, 3])
    """
    if input.dim() <= 2:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    channels = input.shape[1]
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
        )
    split = input.reshape(input.shape[0], groups, channels // groups, *input.shape[2:])
    return _in_format_of(input, split.transpose(1, 2).reshape(input.shape))


# ---- windows as columns


def _two(value: Any, name: str) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    pair = tuple(int(v) for v in value)
    if len(pair) == 1:
        return pair * 2
    if len(pair) != 2:
        raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(pair)}")
    return pair


def _steps(n: int, k: int, dilation: int, stride: int) -> int:
    """How many windows a padded dimension has."""
    return max((n - dilation * (k - 1) - 1) // stride + 1, 0)


def _positions(n: int, k: int, dilation: int, stride: int, device: Any) -> Tensor:
    """Return the index of element i of the window at step s: (k, steps)."""
    inside = oneflow.arange(k, device=device) * dilation
    return inside.unsqueeze(1) + oneflow.arange(_steps(n, k, dilation, stride), device=device) * stride


def _places(height: int, width: int, options: list[tuple[int, int]], device: Any) -> tuple[Tensor, int]:
    """Flat positions of all elements of all windows of a padded image, and the number of windows."""
    kernel, dilation, _, stride = options
    rows = _positions(height, kernel[0], dilation[0], stride[0], device)
    columns = _positions(width, kernel[1], dilation[1], stride[1], device)
    places = rows.unsqueeze(1).unsqueeze(3) * width + columns.unsqueeze(0).unsqueeze(2)
    return places.reshape(-1), rows.shape[1] * columns.shape[1]


def _window_options(kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> list[tuple[int, int]]:
    named = (("kernel_size", kernel_size), ("dilation", dilation), ("padding", padding), ("stride", stride))
    options = [_two(value, name) for name, value in named]
    for (name, _), pair in zip(named, options, strict=True):
        least = 0 if name == "padding" else 1
        if min(pair) < least:
            what = "non-negative" if least == 0 else "greater than zero"
            raise RuntimeError(f"{name} should be {what}, but got {name} height: {pair[0]} {name} width: {pair[1]}")
    return options


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Windows of ``input`` (N, C, H, W) as columns: (N, C * window elements, windows). Without batch: (C, H, W).

    Example::

        >>> F.unfold(oneflow.ones(1, 3, 4, 4), kernel_size=2).shape
        oneflow.Size([1, 12, 9])
    """
    options = _window_options(kernel_size, dilation, padding, stride)
    if input.dim() not in (3, 4) or 0 in input.shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
            f"but got: {list(input.shape)}"
        )
    if input.dim() == 3:
        return unfold(input.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0)
    kernel, dilated, (ph, pw), strides = options
    n, channels, height, width = input.shape
    for size, p, k, d, _ in ((height, ph, kernel[0], dilated[0], 0), (width, pw, kernel[1], dilated[1], 1)):
        if size + 2 * p < d * (k - 1) + 1:
            raise RuntimeError(
                f"Given input with spatial size ({height}, {width}), kernel_size={kernel}, dilation={dilated}, "
                f"padding={(ph, pw)}, calculated shape of the array of sliding blocks is too small, "
                f"but its components must be at least one (stride={strides})."
            )
    padded = pad(input, [pw, pw, ph, ph]) if ph or pw else input
    height, width = padded.shape[2:]
    places, windows = _places(height, width, options, input.device)
    places = replicate_like(input, places)
    columns = padded.reshape(n, channels, height * width).index_select(2, places)
    return columns.reshape(n, channels * kernel[0] * kernel[1], windows)


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Sums columns (N, C * window elements, windows) back into an image (N, C, *output_size): the adjoint of unfold.

    Example::

        >>> F.fold(oneflow.ones(1, 4, 4), output_size=(3, 3), kernel_size=2)
        tensor([[[[1., 2., 1.],
                  [2., 4., 2.],
                  [1., 2., 1.]]]])
    """
    options = _window_options(kernel_size, dilation, padding, stride)
    height, width = _two(output_size, "output_size")
    if input.dim() not in (2, 3) or 0 in input.shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {list(input.shape)}"
        )
    if input.dim() == 2:
        return fold(input.unsqueeze(0), output_size, kernel_size, dilation, padding, stride).squeeze(0)
    kernel, dilated, (ph, pw), strides = options
    elements = kernel[0] * kernel[1]
    n, rows, windows = input.shape
    if rows % elements:
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={rows} and kernel_size={kernel}."
        )
    full = height + 2 * ph, width + 2 * pw
    expected = 1
    for size, k, d, s in zip(full, kernel, dilated, strides, strict=True):
        expected *= _steps(size, k, d, s)
    if expected != windows:
        raise RuntimeError(
            f"Given output_size=({height}, {width}), kernel_size={kernel}, dilation={options[1]}, padding={(ph, pw)}, "
            f"stride={options[3]}, expected size of input's dimension 2 to match the calculated number of sliding "
            f"blocks {expected}, but got input.size(2)={windows}."
        )
    places = replicate_like(input, _places(*full, options, input.device)[0])
    channels = rows // elements
    image = input.new_zeros((n, channels, full[0] * full[1]))
    image = image.index_add(2, places, input.reshape(n, channels, elements * windows))
    return image.reshape(n, channels, *full).narrow(2, ph, height).narrow(3, pw, width)


# ---- sampling at positions


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Positions for :func:`grid_sample` of images of ``size`` (N, C, H, W) under the maps ``theta`` (N, 2, 3).

    In three dimensions the size is (N, C, D, H, W) and ``theta`` (N, 3, 4). The result is (N, *spatial, 2 or 3).

    Example::

        >>> F.affine_grid(oneflow.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 2, 2), align_corners=True).shape
        oneflow.Size([1, 2, 2, 2])
    """
    if not theta.dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if align_corners is None:
        warnings.warn("Default grid_sample and affine_grid behavior has changed to align_corners=False", stacklevel=3)
        align_corners = False
    size = [int(n) for n in size]
    n_dims = len(size) - 2
    if n_dims not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    if list(theta.shape) != [size[0], n_dims, n_dims + 1] or theta.dim() != 3:
        raise ValueError(
            f"Expected a batch of {n_dims}D affine matrices of shape Nx{n_dims}x{n_dims + 1} for size {size}. "
            f"Got {list(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    spatial = size[2:]
    axes = []
    for i, n in enumerate(spatial):
        ends = (-1, 1) if n > 1 else (0, 0)
        at = replicate_like(theta, oneflow.linspace(*ends, n, dtype=theta.dtype, device=theta.device))
        if not align_corners:
            at = at * (n - 1) / n
        shape = [1] * n_dims
        shape[i] = n
        axes.append(at.reshape(shape).expand(spatial))
    base = oneflow.stack([*reversed(axes), theta.new_ones(()).expand(spatial)], -1)
    points = base.reshape(1, -1, n_dims + 1).expand(size[0], -1, -1)
    return points.bmm(theta.transpose(1, 2)).reshape(size[0], *spatial, n_dims)


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Values of ``input`` (N, C, H, W) at positions ``grid`` (N, H', W', 2), x before y, in [-1, 1]: (N, C, H', W').

    Args:
        input: or (N, C, D, H, W) with a grid (N, D', H', W', 3).
        mode: "bilinear", "nearest" or "bicubic".
        padding_mode: beyond the border "zeros", the "border"'s values, or "reflection".
        align_corners: -1 and 1 are centres of the corner elements, else the corners' edges.

    Example::

        >>> grid = F.affine_grid(oneflow.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 2, 2), align_corners=True)
        >>> F.grid_sample(oneflow.arange(4.0).reshape(1, 1, 2, 2), grid, align_corners=True)
        tensor([[[[0., 1.],
                  [2., 3.]]]])
    """
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            f"but got: '{padding_mode}'"
        )
    if align_corners is None:
        warnings.warn("Default grid_sample and affine_grid behavior has changed to align_corners=False", stacklevel=3)
        align_corners = False
    n_dims = input.dim() - 2
    # Autocast casts both.
    if input.dtype != grid.dtype and not oneflow.is_autocast_enabled(input.device.type):
        raise wording.error(
            RuntimeError,
            "grid_sampler(): expected input and grid to have same dtype, but input has "
            f"{input.dtype} and grid has {grid.dtype}",
        )
    if n_dims not in (2, 3) or grid.dim() != input.dim():
        raise wording.error(
            RuntimeError,
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}",
        )
    if input.shape[0] != grid.shape[0]:
        raise wording.error(
            RuntimeError,
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}",
        )
    if grid.shape[-1] != n_dims:
        raise wording.error(
            RuntimeError,
            f"grid_sampler(): expected grid to have size {n_dims} in last dimension, "
            f"but got grid with sizes {list(grid.shape)}",
        )
    if 0 in input.shape[2:]:
        raise wording.error(
            RuntimeError,
            "grid_sampler(): expected input to have non-empty spatial dimensions, "
            f"but input has sizes {list(input.shape)}",
        )
    return _oneflow._C.grid_sample(input, grid, mode, padding_mode, bool(align_corners))
