"""Functions of OneFlow's flat list whose arguments differ from those of the public function of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._extra import _checks, arrays, losses
from oneflow._extra._checks import expect


def sparse_softmax_cross_entropy(logits: Tensor, label: Tensor) -> Tensor:
    """The cross entropy of each row, unreduced; ``nn.functional`` has it with the labels first."""
    return losses.sparse_softmax_cross_entropy(label, logits)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    max_target_length: int | None = None,
    blank: int = 0,
    zero_infinity: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """``nn.functional.ctc_loss``; the longest target's length follows from the lengths."""
    _checks.reduction(reduction)
    function = oneflow.nn.functional.ctc_loss
    return function(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)


def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """``nn.functional.l1_loss``."""
    _checks.reduction(reduction)
    return oneflow.nn.functional.l1_loss(input, target, reduction=reduction)


def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """``nn.functional.mse_loss``."""
    _checks.reduction(reduction)
    return oneflow.nn.functional.mse_loss(input, target, reduction=reduction)


def smooth_l1_loss(input: Tensor, target: Tensor, beta: float = 1.0, reduction: str = "mean") -> Tensor:
    """``nn.functional.smooth_l1_loss`` of two tensors of one shape and dtype."""
    _checks.reduction(reduction)
    _checks.same_sizes("input", input, "target", target)
    _checks.same_dtype("input", input, "target", target)
    expect(beta >= 0, f"beta must be greater than or equal to 0, but got {beta}")
    return oneflow.nn.functional.smooth_l1_loss(input, target, reduction=reduction, beta=beta)


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """``nn.functional.nll_loss``."""
    _checks.reduction(reduction)
    return oneflow.nn.functional.nll_loss(input, target, weight, ignore_index=ignore_index, reduction=reduction)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """``nn.functional.cross_entropy``."""
    _checks.reduction(reduction)
    return oneflow.nn.functional.cross_entropy(
        input, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """``nn.functional.margin_ranking_loss``."""
    _checks.reduction(reduction)
    return oneflow.nn.functional.margin_ranking_loss(input1, input2, target, margin, reduction=reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """``nn.functional.triplet_margin_loss``."""
    _checks.reduction(reduction)
    return oneflow.nn.functional.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=reduction
    )


def gather(x: Tensor, indices: Any = None, axis: Any = 0, *, dim: Any = None, index: Tensor | None = None) -> Tensor:
    """The slices of ``x`` at ``indices`` along ``axis``, in the shape of ``indices``; PyTorch's is ``dim_gather``."""
    if not isinstance(indices, Tensor):
        # PyTorch's form: input, dim, index.
        return oneflow.gather(x, dim if indices is None else indices, index if index is not None else axis)
    axis = axis % x.dim()
    rows = x.index_select(axis, indices.reshape(-1))
    return rows.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def layer_norm(x: Tensor, begin_norm_axis: int, begin_params_axis: int, epsilon: float) -> Tensor:
    """Normalise over the dimensions from ``begin_norm_axis`` on, without weights."""
    return oneflow.layer_norm(x, tuple(x.shape[begin_norm_axis:]), None, None, epsilon)


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, use_l2_norm_kernel: bool = False
) -> Tensor:
    """Divide by the norm along ``dim``. ``use_l2_norm_kernel`` names a kernel of OneFlow; the result is the same."""
    axis = dim + input.dim() if dim < 0 else dim
    expect(axis >= 0, f"Axis should >=0 but axis is {axis} now.")
    expect(axis < input.dim(), f"Axis should < {input.dim()} but axis is {axis} now.")
    return oneflow.nn.functional.normalize(input, p, dim, eps)


def rms_norm(
    x: Tensor, weight: Tensor | None = None, normalized_shape: Sequence[int] = (), epsilon: float = 1e-6
) -> Tensor:
    """Divide by the root of the mean square over the last dimensions."""
    return oneflow.nn.functional.rms_norm(x, tuple(normalized_shape), weight, epsilon)


def group_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    affine: bool = True,
    num_groups: int = 1,
    epsilon: float = 1e-5,
    data_format: str = "channels_first",
    activation: str = "none",
) -> Tensor:
    """Normalise groups of channels, then apply ``"silu"`` if ``activation`` asks for it."""
    if activation not in ("none", "silu"):
        raise ValueError(f"group_norm: activation must be 'none' or 'silu', not {activation!r}")
    x = x.movedim(-1, 1) if data_format == "channels_last" else x
    weight, bias = (gamma, beta) if affine else (None, None)
    y = oneflow.nn.functional.group_norm(x, num_groups, weight, bias, epsilon)
    y = oneflow.nn.functional.silu(y) if activation == "silu" else y
    return y.movedim(1, -1) if data_format == "channels_last" else y


def tensordot(a: Tensor, b: Tensor, dims_a: Any = 2, dims_b: Any = None, *, dims: Any = None) -> Tensor:
    """The sum of products over dimensions: a number of them, or those of ``a`` and those of ``b``."""
    chosen = dims if dims is not None else dims_a if dims_b is None else (list(dims_a), list(dims_b))
    return oneflow.tensordot(a, b, chosen)


def one_hot(input: Tensor, num_classes: int = -1, on_value: Any = 1, off_value: Any = 0) -> Tensor:
    """A row for each class: ``on_value`` at its place, ``off_value`` elsewhere."""
    expect(
        input.dtype in (oneflow.int8, oneflow.uint8, oneflow.int32, oneflow.int64),
        f"one_hot is only applicable to index tensor. Got {input.dtype}",
    )
    hot = oneflow.nn.functional.one_hot(input.long(), num_classes)
    if isinstance(on_value, float) or isinstance(off_value, float):
        return oneflow.where(hot.bool(), float(on_value), float(off_value))
    return hot if (on_value, off_value) == (1, 0) else oneflow.where(hot.bool(), on_value, off_value)


def _triples(x: Tensor, name: str, *lists: Any) -> list[list[Any]]:
    if len({len(item) for item in lists}) != 1:
        sizes = ", ".join(str(len(item)) for item in lists)
        raise RuntimeError(f"{name}: start, stop and step must have the same length, not {sizes}")
    _checks.slice_lists(x.dim(), *lists)
    return [list(triple) for triple in zip(*lists, strict=True)]


def slice(
    x: Tensor,
    start: Sequence[Any],
    stop: Sequence[Any] | None = None,
    step: Sequence[Any] | None = None,
    enable_view_slice: bool | None = None,
) -> Tensor:
    """Part of every dimension by three lists; or as :func:`oneflow.slice` by one of triples."""
    if stop is None or step is None:
        return arrays.slice(x, start)
    return arrays.slice(x, _triples(x, "slice", start, stop, step))


def slice_update(
    ref: Tensor,
    value: Tensor,
    start: Sequence[Any],
    stop: Sequence[Any] | None = None,
    step: Sequence[Any] | None = None,
    inplace: bool = False,
) -> Tensor:
    """``ref`` with ``value`` in a part of it, by three lists; or as :func:`oneflow.slice_update` by one of triples."""
    if stop is None or step is None:
        return arrays.slice_update(ref, value, start)
    expect(
        ref.dtype == value.dtype,
        f"Tensors ref and value must have same type, but got {ref.dtype} and {value.dtype}",
        TypeError,
    )
    triples = _triples(ref, "slice_update", start, stop, step)
    return arrays.slice_update(ref if inplace else ref.clone(), value, triples)


def scatternd(indices: Tensor, updates: Tensor, shape: Sequence[int]) -> Tensor:
    """As :func:`oneflow.scatter_nd`."""
    return arrays.scatter_nd(indices, updates, shape)


def scatterndlike(like: Tensor, updates: Tensor, indices: Tensor) -> Tensor:
    """As :func:`oneflow.scatter_nd`, of the shape of ``like``."""
    return arrays.scatter_nd(indices, updates, like.shape)


def matrix_vector_product(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector."""
    return oneflow.mv(input, vec)


def pixel_shuffle(input: Tensor, h_upscale_factor: int, w_upscale_factor: int | None = None) -> Tensor:
    """Channels moved into blocks of ``h_upscale_factor`` by ``w_upscale_factor`` pixels."""
    h, w = h_upscale_factor, h_upscale_factor if w_upscale_factor is None else w_upscale_factor
    expect(input.dim() == 4, f"Only Accept 4D Tensor, but got {input.dim()}D")
    if h == w:
        return oneflow.nn.functional.pixel_shuffle(input, h)
    *batch, channels, height, width = input.shape
    expect(
        channels % (h * w) == 0,
        "The channels of input tensor must be divisible by (upscale_factor * upscale_factor) or "
        f"(h_upscale_factor * w_upscale_factor), but got {channels} for {h} * {w}",
    )
    blocks = input.reshape(*batch, channels // (h * w), h, w, height, width)
    n = len(batch)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return blocks.permute(order).reshape(*batch, channels // (h * w), height * h, width * w)


def _pool(n: int) -> None:
    def max_pool(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = True,
        ceil_mode: bool = False,
        data_format: str = "channels_first",
    ) -> Any:
        last = data_format == "channels_last"
        x = input.movedim(-1, 1) if last else input
        pool = getattr(oneflow.nn.functional, f"max_pool{n}d")
        y, indices = pool(x, kernel_size, stride, padding, dilation, ceil_mode, return_indices=True)
        return (y.movedim(1, -1), indices.movedim(1, -1)) if last else (y, indices)

    max_pool.__name__ = max_pool.__qualname__ = f"max_pool{n}d"
    max_pool.__doc__ = "The largest element of each window, and where it is."
    globals()[max_pool.__name__] = max_pool


for _n in (1, 2, 3):
    _pool(_n)


def upsample(
    x: Tensor,
    height_scale: float,
    width_scale: float,
    align_corners: bool = False,
    interpolation: str = "nearest",
    data_format: str = "channels_first",
) -> Tensor:
    """``interpolate`` of images by factors."""
    last = data_format == "channels_last"
    x = x.movedim(-1, 1) if last else x
    align = align_corners if interpolation != "nearest" else None
    y = oneflow.nn.functional.interpolate(x, None, [height_scale, width_scale], interpolation, align)
    return y.movedim(1, -1) if last else y


def deform_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    bias: Tensor | None = None,
    stride_h: int = 1,
    stride_w: int = 1,
    pad_h: int = 0,
    pad_w: int = 0,
    dilation_h: int = 1,
    dilation_w: int = 1,
    groups: int = 1,
    offset_groups: int = 1,
    use_mask: bool = True,
) -> Tensor:
    """``nn.functional.deform_conv2d`` by OneFlow's arguments."""
    stride, padding, dilation = (stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w)
    used = mask if use_mask else None
    return oneflow.nn.functional.deform_conv2d(input, offset, weight, bias, stride, padding, dilation, used)


def copy(
    x: Tensor, device_type: Any = None, device_id: int | None = None, pin_memory: bool = False, device: Any = None
) -> Tensor:
    """A copy on a device: its type and index, or the device itself."""
    chosen = device if device is not None else device_type
    if chosen is None:
        return x.clone().pin_memory() if pin_memory else x.clone()
    where = f"{chosen}:{device_id}" if isinstance(chosen, str) and device_id is not None else chosen
    made = x.to(oneflow.device(where) if isinstance(where, str) else where, copy=True)
    return made.pin_memory() if pin_memory else made
