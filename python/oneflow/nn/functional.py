"""Layers and losses as plain functions.

What is one op of the table is called as such; the rest is composed of ops here, so that every device, every layer of
the stack and the graph compiler understand it without further code.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._beside import beside
from oneflow._extra.boxes import deform_conv2d
from oneflow._extra.elementwise import depend, quick_gelu, square_relu
from oneflow._extra.losses import ctc_greedy_decoder, sparse_softmax_cross_entropy
from oneflow.nn._activations import (
    celu,
    celu_,
    elu,
    elu_,
    glu,
    gumbel_softmax,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    logsigmoid,
    mish,
    prelu,
    relu6,
    relu_,
    rrelu,
    rrelu_,
    selu,
    selu_,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
    threshold,
    threshold_,
)
from oneflow.nn._attention import canonical_mask as _canonical_mask  # noqa: F401
from oneflow.nn._attention import multi_head_attention_forward, scaled_dot_product_attention
from oneflow.nn._bilinear import bilinear
from oneflow.nn._composed_losses import (
    cosine_embedding_loss,
    ctc_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    kl_div,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    poisson_nll_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from oneflow.nn._conv import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from oneflow.nn._distances import cdist, cosine_similarity, normalize, pairwise_distance, pdist
from oneflow.nn._dropouts import alpha_dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout
from oneflow.nn._embedding_bag import embedding_bag
from oneflow.nn._fractional import (
    conv_tbc,
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
    native_channel_shuffle,
)
from oneflow.nn._grouped_products import grouped_mm
from oneflow.nn._linear_cross_entropy import linear_cross_entropy
from oneflow.nn._losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from oneflow.nn._norms import batch_norm, group_norm, instance_norm, local_response_norm
from oneflow.nn._resample import (
    affine_grid,
    channel_shuffle,
    fold,
    grid_sample,
    interpolate,
    pad,
    pixel_shuffle,
    pixel_unshuffle,
    unfold,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cdist",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_greedy_decoder",
    "ctc_loss",
    "deform_conv2d",
    "depend",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "grouped_mm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "native_channel_shuffle",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "quick_gelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "sparse_softmax_cross_entropy",
    "square_relu",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

# An op that a functional only renames is bound directly: a frame around it would double the cost of a small call.
linear = _oneflow.linear
gelu = _oneflow.gelu


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(x, 0)`` elementwise; with ``inplace`` into ``input`` itself.

    Example::

        >>> F.relu(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([0.0000, 0.5000, 2.0000])
    """
    return input.relu_() if inplace else _oneflow.relu(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * sigmoid(x)`` elementwise; with ``inplace`` into ``input`` itself.

    Example::

        >>> F.silu(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.2689,  0.3112,  1.7616])
    """
    return _oneflow.silu_(input) if inplace else _oneflow.silu(input)


def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent, elementwise.

    Example::

        >>> F.tanh(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([-0.7616,  0.4621,  0.9640])
    """
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-x))``, elementwise.

    Example::

        >>> F.sigmoid(oneflow.tensor([-1.0, 0.5, 2.0]))
        tensor([0.2689, 0.6225, 0.8808])
    """
    return input.sigmoid()


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Softmax along ``dim``; the input is cast to ``dtype`` first where one is given.

    Example::

        >>> F.softmax(oneflow.tensor([-1.0, 0.5, 2.0]), dim=-1)
        tensor([0.0391, 0.1753, 0.7856])
    """
    if dim is None:
        dim = _implicit_dim("softmax", input.dim(), _stacklevel)
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Logarithm of the softmax along ``dim``; the input is cast to ``dtype`` first where one is given.

    Example::

        >>> F.log_softmax(oneflow.tensor([-1.0, 0.5, 2.0]), dim=-1)
        tensor([-3.2413, -1.7413, -0.2413])
    """
    if dim is None:
        dim = _implicit_dim("log_softmax", input.dim(), _stacklevel)
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def _implicit_dim(name: str, n_dims: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if n_dims in (0, 1, 3) else 1


def dropout(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    generator: oneflow.Generator | None = None,
    *,
    addend: Tensor | None = None,
) -> Tensor:
    """Set elements to zero with probability ``p`` and scale the rest by ``1 / (1 - p)``; identity unless ``training``.

    Args:
        input: any shape, floating point.
        p: probability of zero, within [0, 1].
        training: whether to drop anything.
        inplace: write into ``input``.
        generator: where the random numbers come from, as in OneFlow.
        addend: added to the result, as in OneFlow; of the shape of ``input``.

    Raises:
        ValueError: ``p`` is outside [0, 1].

    Example::

        >>> F.dropout(oneflow.tensor([1.0, 2.0]), p=0.5, training=False)
        tensor([1., 2.])
        >>> F.dropout(oneflow.tensor([1.0, 2.0]), p=1.0)
        tensor([0., 0.])
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input if addend is None else input + addend
    output = _oneflow._C.native_dropout(input, p, generator=generator)[0]
    output = output if addend is None else output + addend
    return input.copy_(output) if inplace else output


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of ``weight`` (rows, length) at the int64 indices ``input`` (*): (*, length).

    See :class:`oneflow.nn.Embedding` for the options.

    Raises:
        AssertionError: ``padding_idx`` is no row.
        IndexError: an index is out of range.

    Example::

        >>> F.embedding(oneflow.tensor([1, 0]), oneflow.tensor([[0.0, 1.0], [2.0, 3.0]]))
        tensor([[2., 3.],
                [0., 1.]])
    """
    if weight.dim() != 2:
        raise RuntimeError(f"'weight' must be 2-D, got {list(weight.shape)}")
    rows = weight.shape[0]
    if padding_idx is None:
        padding_idx = -1
    elif not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    elif padding_idx < 0:
        padding_idx += rows
    if max_norm is not None:
        _renormalise_rows(weight, input, max_norm, norm_type)
    return _oneflow.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def _renormalise_rows(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows of ``weight`` that ``index`` names down to ``max_norm``, in place."""
    with oneflow.no_grad():
        # An index that occurs twice is written twice, with the same row.
        used = index.reshape(-1)
        rows = weight[used]
        norms = rows.abs().pow(norm_type).sum(1, keepdim=True).pow(1.0 / norm_type)
        weight[used] = oneflow.where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise the trailing ``normalized_shape`` dimensions, then scale by ``weight`` and shift by ``bias``.

    Example::

        >>> F.layer_norm(oneflow.tensor([[0.0, 2.0], [1.0, 5.0]]), (2,))
        tensor([[-1.0000,  1.0000],
                [-1.0000,  1.0000]])
    """
    return oneflow.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divide by the root mean square over the trailing ``normalized_shape`` dimensions, then scale by ``weight``.

    Example::

        >>> F.rms_norm(oneflow.tensor([3.0, 4.0]), (2,))
        tensor([0.8485, 1.1314])
    """
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError("rms_norm: Expected normalized_shape to be at least 1-dimensional, but got no element")
    if tuple(input.shape[input.dim() - len(shape) :]) != shape:
        raise RuntimeError(
            f"rms_norm: normalized_shape={list(shape)} does not match the trailing dimensions of an input "
            f"of size {list(input.shape)}"
        )
    half = input.dtype in (oneflow.bfloat16, oneflow.float16)
    if eps is None:
        # Of the dtype that is computed in.
        eps = oneflow.finfo(oneflow.float32 if half else input.dtype).eps
    if input.is_floating_point() and (weight is None or weight.dtype == input.dtype):
        return _oneflow._C.native_rms_norm(input, shape, weight, eps)[0]
    wide = input.float() if half else input
    dims = tuple(range(-len(shape), 0))
    y = wide * (wide * wide).mean(dims, keepdim=True).add(eps).rsqrt()
    if half:
        y = y.to(input.dtype)
    return y if weight is None else y * weight


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 indices (*) to int64 rows (*, num_classes) with a single one each; -1 takes the largest index + 1.

    Raises:
        RuntimeError: an index is negative or not below ``num_classes``.

    Example::

        >>> F.one_hot(oneflow.tensor([0, 2]), num_classes=3)
        tensor([[1, 0, 0],
                [0, 0, 1]])
    """
    if tensor.dtype != oneflow.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if tensor.numel() == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    # A trace and a batch have no values to look at; they are to say how many classes there are.
    hidden = _oneflow._is_tracing() or _oneflow._vmap_shown(tensor) is not None
    read = tensor.numel() > 0 and not (num_classes > 0 and hidden)
    if read and int(tensor.min().item()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    largest = int(tensor.max().item()) if read else -1
    if num_classes == -1:
        num_classes = largest + 1
    elif num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    elif largest >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    classes = beside(tensor, oneflow.arange(num_classes, device=tensor.device))
    return (tensor.unsqueeze(-1) == classes).to(oneflow.int64)
