"""Public names of the package and of Tensor that are bound late: functions of ``nn.functional`` and of OneFlow.

The package looks a name up here when it is first asked for, so that importing stays light.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import oneflow
from oneflow import Tensor

# Functions of `nn.functional` that are public in the package too.
FUNCTIONAL = (
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "alpha_dropout",
    "bilinear",
    "binary_cross_entropy_with_logits",
    "cdist",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv_tbc",
    "cosine_embedding_loss",
    "cosine_similarity",
    "ctc_loss",
    "dropout",
    "feature_alpha_dropout",
    "gelu",
    "grid_sample",
    "hardshrink",
    "hinge_embedding_loss",
    "kl_div",
    "margin_ranking_loss",
    "mish",
    "native_channel_shuffle",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "silu",
    "softplus",
    "softsign",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
)
# Functions that only OneFlow has.
OWN = {
    "batch_gather": "arrays",
    "broadcast_like": "arrays",
    "cast": "arrays",
    "gather_nd": "arrays",
    "in_top_k": "losses",
    "nms": "boxes",
    "quick_gelu": "elementwise",
    "roc_auc_score": "losses",
    "scatter_nd": "arrays",
    "slice": "arrays",
    "slice_update": "arrays",
    "square_relu": "elementwise",
    "tensor_scatter_nd_update": "arrays",
}
SYMBOLS = (
    "SymBool",
    "SymFloat",
    "SymInt",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
)
METHODS = ("expand", "new_ones", "repeat")
# Functions of ``ops.aten`` that the package has too, and classes of `cuda`.
ATEN = ("_assert_async", "_grouped_mm")
STREAMS = ("Event", "Stream")
NAMES = (
    *ATEN,
    *STREAMS,
    *FUNCTIONAL,
    *OWN,
    *METHODS,
    *SYMBOLS,
    "vmap",
    "embedding",
    "embedding_renorm_",
    "batch_norm",
    "instance_norm",
    "dequantize",
    "ger",
    "range",
)


def find(name: str) -> Any:
    """The function of a name, or None."""
    if name in OWN:
        return getattr(importlib.import_module(f"oneflow._extra.{OWN[name]}"), name)
    if name in FUNCTIONAL:
        return getattr(importlib.import_module("oneflow.nn.functional"), name)
    if name in SYMBOLS:
        return getattr(importlib.import_module("oneflow._symbols"), name)
    if name == "vmap":
        return importlib.import_module("oneflow.func").vmap
    if name in METHODS:
        return getattr(Tensor, name)
    if name in ATEN:
        return getattr(importlib.import_module("oneflow._aten"), name)
    if name in STREAMS:
        return getattr(importlib.import_module("oneflow.cuda"), name)
    return globals().get(name) if name in NAMES else None


# ---- functions whose arguments differ from those of nn.functional


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """Rows of ``weight`` at ``indices``; :func:`oneflow.nn.functional.embedding` takes them the other way round.

    Example::

        >>> oneflow.embedding(oneflow.tensor([[0.0], [2.0]]), oneflow.tensor([1]))
        tensor([[2.]])
    """
    return oneflow._oneflow.embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scale the rows of a table that ``indices`` names down to ``max_norm``, in place.

    Example::

        >>> oneflow.embedding_renorm_(oneflow.tensor([[3.0, 4.0]]), oneflow.tensor([0]), 1.0, 2.0)
        tensor([[0.6000, 0.8000]])
    """
    from oneflow.nn.functional import _renormalise_rows

    _renormalise_rows(input, indices, max_norm, norm_type)
    return input


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """:func:`oneflow.nn.functional.batch_norm` with its arguments in another order.

    Example::

        >>> oneflow.batch_norm(oneflow.ones(2, 1), None, None, None, None, True, 0.1, 1e-5, False).shape
        oneflow.Size([2, 1])
    """
    from oneflow.nn import functional

    return functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """:func:`oneflow.nn.functional.instance_norm` with its arguments in another order.

    Example::

        >>> oneflow.instance_norm(oneflow.ones(1, 2, 3), None, None, None, None, True, 0.1, 1e-5, False).shape
        oneflow.Size([1, 2, 3])
    """
    from oneflow.nn import functional

    return functional.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def dequantize(input: Tensor) -> Tensor:
    """The numbers in single precision; there are no quantized tensors.

    Example::

        >>> oneflow.ones(1, dtype=oneflow.float64).dequantize()
        tensor([1.])
    """
    return input.float()


def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``outer(input, vec2)``.

    Example::

        >>> oneflow.ger(oneflow.tensor([1.0, 2.0]), oneflow.tensor([3.0]))
        tensor([[3.],
                [6.]])
    """
    return oneflow.outer(input, vec2) if out is None else oneflow.outer(input, vec2, out=out)


def range(start: float = 0, end: float | None = None, step: float = 1, **options: Any) -> Tensor:
    """Numbers from ``start`` to ``end``, which counts too; :func:`oneflow.arange` leaves it out.

    Example::

        >>> oneflow.arange(0, 2 + 1, dtype=oneflow.float32)  # instead
        tensor([0., 1., 2.])
    """
    warnings.warn(
        "range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use oneflow.arange, which produces values in [start, end).",
        stacklevel=2,
    )
    if end is None:
        start, end = 0, start
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) / step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = int((end - start) / step) + 1
    options.setdefault("dtype", oneflow.get_default_dtype())
    return (oneflow.arange(count, device=options.get("device"), dtype=oneflow.float64) * step + start).to(
        options["dtype"]
    )


# ---- methods of Tensor


def _method(name: str) -> Any:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return find(name)(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"See :func:`oneflow.{name}`."
    return method


def fill_diagonal_(self: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Write a number to the main diagonal, in place.

    Args:
        fill_value: the number.
        wrap: of a matrix with more rows than columns, begin again after each block of columns, one row left out.

    Raises:
        RuntimeError: fewer than two dimensions, or more than two of different sizes.

    Example::

        >>> oneflow.zeros(2, 2).fill_diagonal_(3.0)
        tensor([[3., 0.],
                [0., 3.]])
    """
    if self.dim() < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.dim() > 2:
        if len(set(self.shape)) > 1:
            raise RuntimeError("all dimensions of input must be of equal length")
        step = sum(self.stride())
        self.as_strided((self.shape[0],), (step,), self.storage_offset()).fill_(fill_value)
        return self
    height, width = self.shape
    for top in (0, *(_blocks(height, width) if wrap else ())):
        self[top:].diagonal().fill_(fill_value)
    return self


def _blocks(height: int, width: int) -> Any:
    import builtins

    return builtins.range(width + 1, height, width + 1)


def resize(self: Tensor, *sizes: Any) -> Tensor:
    """The same elements with other sizes. Deprecated: use ``reshape`` or ``resize_``.

    Example::

        >>> oneflow.ones(4).resize_(2, 2).shape  # instead
        oneflow.Size([2, 2])
    """
    warnings.warn("non-inplace resize is deprecated", stacklevel=2)
    wanted = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    count = 1
    for n in wanted:
        count *= n
    if count != self.numel():
        raise RuntimeError(
            f"requested resize to {'x'.join(map(str, wanted))} ({count} elements in total), but the given tensor has "
            f"a size of {'x'.join(map(str, self.shape))} ({self.numel()} elements). autograd's resize can only change "
            "the shape of a given tensor, while preserving the number of elements. "
        )
    return self.reshape(tuple(wanted))


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """The same elements with the sizes of another tensor. Deprecated: use ``reshape_as``.

    Example::

        >>> oneflow.ones(4).resize_as_(oneflow.ones(2, 2)).shape  # instead
        oneflow.Size([2, 2])
    """
    return resize(self, *tensor.shape)


def index(self: Tensor, indices: Any) -> Tensor:
    """``self[indices]``: one index, or None, for each dimension.

    Example::

        >>> oneflow.arange(4).reshape(2, 2).index([None, oneflow.tensor([1])])
        tensor([[1],
                [3]])
    """
    return self[tuple(slice(None) if i is None else i for i in indices)]


def is_offloaded(self: Tensor) -> bool:
    """False: memory stays on the tensor's device.

    Example::

        >>> oneflow.ones(1).is_offloaded
        False
    """
    return False


def offload(self: Tensor) -> None:
    """Move the memory from a GPU to the host. A tensor of the CPU is there: it says so and does nothing.

    Example::

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     oneflow.ones(1).offload()
    """
    if self.device.type != "cpu":
        raise NotImplementedError("Tensor.offload: memory of a GPU stays there; use Tensor.cpu()")
    warnings.warn("offload: the tensor is in host memory already", stacklevel=2)


def load(self: Tensor) -> None:
    """Move offloaded memory back to its GPU. Nothing is offloaded: it says so and does nothing."""
    warnings.warn("load: the tensor is not offloaded", stacklevel=2)


def ipu(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Raises RuntimeError: there is no provider for such devices.

    Example::

        >>> oneflow.ones(1).ipu()
        Traceback (most recent call last):
            ...
        RuntimeError: there is no provider for ...
    """
    raise RuntimeError("there is no provider for IPUs")


def xpu(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Raises RuntimeError: there is no provider for such devices.

    Example::

        >>> oneflow.ones(1).xpu()
        Traceback (most recent call last):
            ...
        RuntimeError: there is no provider for ...
    """
    raise RuntimeError("there is no provider for Intel's GPUs")


def _sample_dirichlet(concentration: Tensor) -> Tensor:
    """Shares that add up to one over the last dimension, drawn; torchvision asks for the name."""
    from oneflow.distributions import Dirichlet

    return Dirichlet(concentration).sample()


def attach() -> None:
    """Add the methods to Tensor."""
    for name in ("cast", "in_top_k", "nms", "mish", "selu", "silu", "softplus", "softsign", "quick_gelu"):
        if not hasattr(Tensor, name):
            setattr(Tensor, name, _method(name))
    for function in (fill_diagonal_, resize, resize_as, index, offload, load, ipu, xpu, ger, dequantize):
        if not hasattr(Tensor, function.__name__):
            setattr(Tensor, function.__name__, function)
    held: Any = Tensor
    held.is_offloaded = property(is_offloaded)
    if not hasattr(Tensor, "to_sparse_coo"):
        held.to_sparse_coo = Tensor.to_sparse
