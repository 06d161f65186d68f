"""ATen's functions whose arguments or names differ from the public ones: what graphs made by PyTorch call.

Each is a composition of public functions, with the arguments in ATen's order.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow


def _nn() -> Any:
    return oneflow.nn.functional


def alias(self: Tensor) -> Tensor:
    """A view of all of a tensor."""
    return self.view(self.shape)


def slice(self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """A view of every ``step``-th entry of a dimension."""
    dim %= self.dim()
    # The largest integer of ATen stands for the end.
    stop = None if end is not None and end >= sys.maxsize else end
    return self[(*(_ALL,) * dim, _slice(start, stop, step))]


_slice = builtins.slice
_ALL = _slice(None)


def index(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """The elements at indices or masks; None stands for a whole dimension."""
    return self[tuple(_ALL if i is None else i for i in indices)]


def split_with_sizes(self: Tensor, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """Parts of the given sizes."""
    return self.split(list(split_sizes), dim)


def scalar_tensor(s: Any, **options: Any) -> Tensor:
    """A tensor of one number."""
    options.pop("layout", None), options.pop("pin_memory", None)
    dtype = options.pop("dtype", None) or oneflow.get_default_dtype()
    return oneflow.full((), s, dtype=dtype, **options)


def lift_fresh_copy(self: Tensor) -> Tensor:
    """A copy."""
    return self.clone()


def lift_fresh(self: Tensor) -> Tensor:
    """The tensor itself."""
    return self


def _assert_tensor_metadata(a: Tensor, *args: Any, **kwargs: Any) -> None:
    """Nothing: sizes and dtypes follow from those of the arguments, which are compared."""


def sym_constrain_range_for_size(size: Any, min: int | None = None, max: int | None = None) -> None:
    """Raise RuntimeError where a size lies outside of a range."""
    if size < (min or 0) or (max is not None and size > max):
        raise RuntimeError(f"a size is {size}, which is not in [{min or 0}, {max}]")


sym_constrain_range = sym_constrain_range_for_size


# ---- layers


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """A convolution, or its transpose, over as many dimensions as the weight has.

    Example::

        >>> x, w = oneflow.ones(1, 1, 3), oneflow.ones(1, 1, 2)
        >>> oneflow.convolution(x, w, None, [1], [0], [1], False, [0], 1)
        tensor([[[2., 2.]]])
    """
    n = weight.dim() - 2
    if transposed:
        name = f"conv_transpose{n}d"
        return getattr(_nn(), name)(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return getattr(_nn(), f"conv{n}d")(input, weight, bias, stride, padding, dilation, groups)


def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    benchmark: bool,
    deterministic: bool,
    cudnn_enabled: bool,
    allow_tf32: bool = True,
) -> Tensor:
    """:func:`convolution`; the flags choose among kernels that there is one of."""
    return convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """Softmax; halves become float32 where ``half_to_float`` says so."""
    return self.softmax(dim, dtype=oneflow.float32 if half_to_float else None)


def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """The logarithm of softmax; halves become float32 where ``half_to_float`` says so."""
    return self.log_softmax(dim, dtype=oneflow.float32 if half_to_float else None)


def elu(self: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    """``scale * x`` above zero, and ``scale * alpha * (exp(input_scale * x) - 1)`` below."""
    return oneflow.where(self > 0, self * scale, oneflow.expm1(self * input_scale) * (alpha * scale))


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer norm, the mean and the reciprocal deviation."""
    dims = tuple(range(-len(normalized_shape), 0))
    var, mean = oneflow.var_mean(input, dims, correction=0, keepdim=True)
    out = _nn().layer_norm(input, normalized_shape, weight, bias, eps)
    return out, mean, oneflow.rsqrt(var + eps)


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Group norm, the means and the reciprocal deviations of the groups."""
    var, mean = oneflow.var_mean(input.reshape(N, group, C // group * HxW), -1, correction=0)
    return _nn().group_norm(input, group, weight, bias, eps), mean, oneflow.rsqrt(var + eps)


def _native_batch_norm_legit_no_training(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch norm by the running statistics, and two empty tensors."""
    out = _nn().batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    return out, input.new_empty(0), input.new_empty(0)


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch norm, the mean and the reciprocal deviation of the batch; running statistics are written."""
    out = _nn().batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return out, input.new_empty(0), input.new_empty(0)
    dims = (0, *range(2, input.dim()))
    var, mean = oneflow.var_mean(input, dims, correction=0)
    return out, mean, oneflow.rsqrt(var + eps)


def _native_batch_norm_legit(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`native_batch_norm`, with or without running statistics."""
    if isinstance(rest[0], bool):
        rest = (None, None, *rest)
    return native_batch_norm(input, weight, bias, *rest)


def _native_batch_norm_legit_functional(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """Batch norm, the batch's statistics, and the new running ones."""
    mean, var = running_mean.clone(), running_var.clone()
    return *native_batch_norm(input, weight, bias, mean, var, training, momentum, eps), mean, var


def native_dropout(input: Tensor, p: float, train: bool | None = True) -> tuple[Tensor, Tensor]:
    """Dropout and the mask of what is kept."""
    if not train:
        return input.clone(), oneflow.ones_like(input, dtype=oneflow.bool)
    output, mask = _oneflow._C.native_dropout(input, p)
    return output, mask


def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Bags of embeddings; what only the backward reads is empty."""
    out = embedding_bag(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        None if padding_idx == -1 else padding_idx,
    )[0]
    return out, indices.new_empty(0), indices.new_empty(0), indices.new_empty(0)


_embedding_bag_forward_only = _embedding_bag


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Bags of embeddings, whose mode is a number (0 sum, 1 mean, 2 max); what only the backward reads is empty.

    :func:`oneflow.nn.functional.embedding_bag` takes the indices first and the mode by name.

    Example::

        >>> weight = oneflow.tensor([[1.0], [2.0], [4.0]])
        >>> oneflow.embedding_bag(weight, oneflow.tensor([0, 2, 1]), oneflow.tensor([0, 2]))[0]
        tensor([[5.],
                [2.]])
    """
    out = _nn().embedding_bag(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=("sum", "mean", "max")[mode],
        sparse=sparse,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    return out, indices.new_empty(0), indices.new_empty(0), indices.new_empty(0)


def _scaled_dot_product_flash_attention_for_cpu(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention, and the logarithms of the sums of exponentials of the scores."""
    out = _nn().scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if attn_mask is not None:
        scores = scores + attn_mask
    if is_causal:
        scores = scores.masked_fill(
            oneflow.ones(scores.shape[-2:], dtype=oneflow.bool).tril().logical_not(), -oneflow.inf
        )
    return out, scores.float().logsumexp(-1)


def _scaled_dot_product_flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """As the form for the CPU; offsets of packed sequences are None, and the random state and mask are empty."""
    out, sums = _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, scale=scale)
    nothing = query.new_empty(0)
    return out, sums, None, None, query.shape[-2], key.shape[-2], nothing, nothing, nothing


def _scaled_dot_product_efficient_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Tensor, ...]:
    """As the form for the CPU; the random state is empty."""
    options: dict[str, Any] = {"attn_mask": attn_bias, "scale": scale}
    out, sums = _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, **options)
    nothing = query.new_empty(0)
    return out, sums if compute_log_sumexp else nothing, nothing, nothing


def _adaptive_avg_pool2d(self: Tensor, output_size: Sequence[int]) -> Tensor:
    """Means over windows that give the output these sizes."""
    return _nn().adaptive_avg_pool2d(self, output_size)


def _adaptive_avg_pool3d(self: Tensor, output_size: Sequence[int]) -> Tensor:
    """Means over windows that give the output these sizes."""
    return _nn().adaptive_avg_pool3d(self, output_size)


def _cdist_forward(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    """The distance of each row of one to each of the other."""
    return oneflow.cdist(x1, x2, p)


def _pdist_forward(self: Tensor, p: float = 2.0) -> Tensor:
    """The distances of all pairs of rows."""
    return _nn().pdist(self, p)


def max_pool2d_with_indices(
    self: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest element of each window, and where it lies."""
    return _nn().max_pool2d(self, kernel_size, stride or None, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    self: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest element of each window, and where it lies."""
    return _nn().max_pool3d(self, kernel_size, stride or None, padding, dilation, ceil_mode, True)


# ---- padding and resampling


def constant_pad_nd(self: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    """A border of one value."""
    return _nn().pad(self, list(pad), "constant", value)


def _padded(mode: str) -> Any:
    def padded(self: Tensor, padding: Sequence[int]) -> Tensor:
        return _nn().pad(self, list(padding), mode)

    padded.__doc__ = f"A border that is filled in the mode {mode!r}."
    return padded


reflection_pad1d = reflection_pad2d = reflection_pad3d = _padded("reflect")
replication_pad1d = replication_pad2d = replication_pad3d = _padded("replicate")


def _resampled(mode: str, has_corners: bool) -> Any:
    def resampled(self: Tensor, output_size: Any, *rest: Any) -> Tensor:
        corners = rest[0] if has_corners else None
        scales = [s for s in rest[int(has_corners) :] if s is not None]
        if scales and isinstance(scales[0], (list, tuple)):
            # The overload "vec" has all factors in one list.
            scales = list(scales[0])
        if output_size is not None:
            scales = []
        return _nn().interpolate(
            self,
            None if output_size is None else list(output_size),
            scales or None,
            mode,
            align_corners=corners,
        )

    resampled.__doc__ = f"The input resampled in the mode {mode!r}."
    return resampled


upsample_nearest1d = upsample_nearest2d = upsample_nearest3d = _resampled("nearest", False)
_upsample_nearest_exact1d = _upsample_nearest_exact2d = _upsample_nearest_exact3d = _resampled("nearest-exact", False)
upsample_linear1d = _resampled("linear", True)
upsample_bilinear2d = _resampled("bilinear", True)
upsample_bicubic2d = _resampled("bicubic", True)
upsample_trilinear3d = _resampled("trilinear", True)


def _upsample_bilinear2d_aa(self: Tensor, output_size: Any, align_corners: bool, *scales: Any) -> Tensor:
    """The input resampled bilinearly without aliasing."""
    given = [s for s in scales if s is not None]
    factors = list(given[0]) if given and isinstance(given[0], (list, tuple)) else given
    size = None if output_size is None else list(output_size)
    factor = None if size is not None else factors
    return _nn().interpolate(self, size, factor, "bilinear", align_corners=align_corners, antialias=True)


_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Samples at the points of a grid; modes are numbers."""
    return _nn().grid_sample(input, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)


grid_sampler = grid_sampler_3d = grid_sampler_2d


# ---- transforms


def _scaled(result: Tensor, normalization: int, n: int) -> Tensor:
    """By ATen's number: 0 leaves sums as they are, 1 divides by the root of their number, 2 by the number."""
    return result if normalization == 0 else result * (n ** (-0.5 if normalization == 1 else -1.0))


def _count(self: Tensor, dim: Sequence[int]) -> int:
    n = 1
    for d in dim:
        n *= self.shape[d]
    return n


def _fft_r2c(self: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Tensor:
    """The transform of reals."""
    function = oneflow.fft.rfftn if onesided else oneflow.fft.fftn
    return _scaled(function(self, dim=list(dim), norm="backward"), normalization, _count(self, dim))


def _fft_c2c(self: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Tensor:
    """The transform of complex numbers, or its inverse."""
    dims = list(dim)
    made = oneflow.fft.fftn(self, dim=dims) if forward else oneflow.fft.ifftn(self, dim=dims, norm="forward")
    return _scaled(made, normalization, _count(self, dim))


def _fft_c2r(self: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    """The inverse transform to reals, of this size in the last dimension."""
    sizes = [self.shape[d] for d in dim[:-1]] + [last_dim_size]
    n = _count(self, dim[:-1]) * last_dim_size
    return _scaled(oneflow.fft.irfftn(self, sizes, list(dim), norm="forward"), normalization, n)


# ---- names of linalg


def linalg_vector_norm(
    self: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of vectors."""
    return oneflow.linalg.vector_norm(self, ord, dim, keepdim, dtype=dtype)


def linalg_norm(self: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of vectors or matrices."""
    return oneflow.linalg.norm(self, ord, dim, keepdim, dtype=dtype)


def tensordot(self: Tensor, other: Tensor, dims_self: Sequence[int], dims_other: Sequence[int]) -> Tensor:
    """Products summed over pairs of dimensions."""
    return oneflow.tensordot(self, other, (list(dims_self), list(dims_other)))


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: int | None = None) -> Tensor:
    """The distance of each row of one to each of the other; how it is computed is a number, which is not read."""
    return oneflow.cdist(x1, x2, p)


# ---- casts and shapes


def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """A cast or a copy: a dtype, a device or another tensor, whether it may run late and is a copy, and its format."""
    options = {key: value for key, value in kwargs.items() if key not in ("layout", "pin_memory") and value is not None}
    flags = ["non_blocking", "copy"]
    for value in args:
        if isinstance(value, Tensor):
            options["device"], options["dtype"] = value.device, value.dtype
        elif isinstance(value, bool):
            options[flags.pop(0)] = value
        elif isinstance(value, oneflow.dtype):
            options["dtype"] = value
        elif isinstance(value, oneflow.memory_format):
            options["memory_format"] = value
        elif value is not None:
            options["device"] = value
    return self.to(**options)


def mT(self: Tensor) -> Tensor:
    """The last two dimensions exchanged."""
    return self.transpose(-2, -1)


def mH(self: Tensor) -> Tensor:
    """The conjugate of the transpose of each matrix."""
    return self.mH


matrix_H = mH


def numpy_T(self: Tensor) -> Tensor:
    """All dimensions in the opposite order."""
    return self.permute(*reversed(range(self.dim())))


def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """A view of the windows of a dimension."""
    return self.unfold(dimension, size, step)


def im2col(self: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    """The windows of an image as columns."""
    return _nn().unfold(self, kernel_size, dilation, padding, stride)


def col2im(self: Tensor, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    """An image from columns, which add up where they overlap."""
    return _nn().fold(self, output_size, kernel_size, dilation, padding, stride)


def block_diag(tensors: Sequence[Tensor]) -> Tensor:
    """Matrices along a diagonal."""
    return oneflow.block_diag(*tensors)


def cartesian_prod(tensors: Sequence[Tensor]) -> Tensor:
    """All combinations of elements."""
    return oneflow.cartesian_prod(*tensors)


def _unique2(
    self: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """The values, where each element is among them, and how often each is there."""
    return oneflow.unique(self, sorted, True, True)


def unique_consecutive(
    self: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The values of runs, in which run each element is, and how long the runs are."""
    return oneflow.unique_consecutive(self, True, True, dim)


def unique_dim(
    self: Tensor, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """The slices, where each is among them, and how often each is there."""
    return oneflow.unique(self, sorted, True, True, dim)


# ---- more layers


def log_sigmoid(self: Tensor) -> Tensor:
    """The logarithm of the logistic function."""
    return _nn().logsigmoid(self)


def _safe_softmax(self: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Softmax that is 0 where all of a row is negative infinity."""
    masked = (self == -oneflow.inf).all(dim, keepdim=True)
    return oneflow.where(masked, 0.0, self.softmax(dim, dtype=dtype))


def adaptive_max_pool1d(self: Tensor, output_size: Any) -> Any:
    """The largest element of each window, and where it lies."""
    return _nn().adaptive_max_pool1d(self, output_size, True)


def adaptive_max_pool2d(self: Tensor, output_size: Any) -> Any:
    """The largest element of each window, and where it lies."""
    return _nn().adaptive_max_pool2d(self, output_size, True)


def adaptive_max_pool3d(self: Tensor, output_size: Any) -> Any:
    """The largest element of each window, and where it lies."""
    return _nn().adaptive_max_pool3d(self, output_size, True)


def fractional_max_pool2d(self: Tensor, kernel_size: Any, output_size: Any, random_samples: Tensor) -> Any:
    """The largest element of each window of a random grid, and where it lies."""
    pool = _nn().fractional_max_pool2d
    return pool(self, kernel_size, output_size, return_indices=True, _random_samples=random_samples)


def fractional_max_pool3d(self: Tensor, kernel_size: Any, output_size: Any, random_samples: Tensor) -> Any:
    """The largest element of each window of a random grid, and where it lies."""
    pool = _nn().fractional_max_pool3d
    return pool(self, kernel_size, output_size, return_indices=True, _random_samples=random_samples)


def max_unpool2d(self: Tensor, indices: Tensor, output_size: Sequence[int]) -> Tensor:
    """Each element where the pool found it, among zeros."""
    planes = self.new_zeros((*self.shape[:-2], output_size[0] * output_size[1]))
    return planes.scatter(-1, indices.flatten(-2), self.flatten(-2)).unflatten(-1, tuple(output_size))


def max_unpool3d(self: Tensor, indices: Tensor, output_size: Sequence[int], stride: Any, padding: Any) -> Tensor:
    """Each element where the pool found it, among zeros."""
    volumes = self.new_zeros((*self.shape[:-3], output_size[0] * output_size[1] * output_size[2]))
    return volumes.scatter(-1, indices.flatten(-3), self.flatten(-3)).unflatten(-1, tuple(output_size))


def linalg_householder_product(input: Tensor, tau: Tensor, columns: int = -1) -> Tensor:
    """The first columns of a product of Householder matrices; a program says how many where they are not all."""
    return oneflow._oneflow._C.linalg_householder_product(input, tau, columns)
