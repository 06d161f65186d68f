"""Public names of the package that are imported when they are first asked for, so that importing it stays light."""

from __future__ import annotations

import importlib
from typing import Any

from oneflow import Tensor

# The names of each module that are public in the package too.
_NAMES_OF: dict[str, tuple[str, ...]] = {
    "_aten": ("_assert_async", "_grouped_mm"),
    "_extra.arrays": (
        "batch_gather",
        "broadcast_like",
        "cast",
        "gather_nd",
        "scatter_nd",
        "slice",
        "slice_update",
        "tensor_scatter_nd_update",
    ),
    "_extra.boxes": ("nms", "roi_align"),
    "_extra.buffers": ("gen_tensor_buffer", "tensor_buffer_to_tensor", "tensor_to_tensor_buffer"),
    "_extra.elementwise": ("quick_gelu", "square_relu"),
    "_extra.losses": ("in_top_k", "roc_auc_score"),
    "_late_functions": (
        "batch_norm",
        "dequantize",
        "embedding",
        "embedding_renorm_",
        "ger",
        "instance_norm",
        "range",
    ),
    "_ops": ("ops",),
    "_segments": ("segment_reduce",),
    "_sparse_products": ("dsmm", "hsmm", "hspmm", "saddmm", "smm", "spmm", "sspaddmm"),
    "_symbols": (
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
    ),
    "amp._switches": (
        "autocast",
        "get_autocast_cpu_dtype",
        "get_autocast_gpu_dtype",
        "is_autocast_cpu_enabled",
        "set_autocast_cpu_dtype",
        "set_autocast_cpu_enabled",
        "set_autocast_gpu_dtype",
    ),
    "compiler": ("compile",),
    "cuda": ("Event", "Stream"),
    "func": ("vmap",),
    "utils.dlpack": ("to_dlpack",),
    "nn.functional": (
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
        "pad",
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
        "softshrink",
        "softsign",
        "threshold",
        "threshold_",
        "triplet_margin_loss",
    ),
}
_HOMES = {name: module for module, names in _NAMES_OF.items() for name in names}
# Methods that are functions too.
_METHODS = (
    "contiguous",
    "expand",
    "global_to_global",
    "local_to_global",
    "new_empty",
    "new_full",
    "new_ones",
    "new_tensor",
    "new_zeros",
    "repeat",
    "to_global",
    "to_local",
    "view",
)
NAMES = frozenset((*_HOMES, *_METHODS))


def find(name: str) -> Any:
    """What stands under one of the ``NAMES``."""
    if name in _METHODS:
        return getattr(Tensor, name)
    return getattr(importlib.import_module(f"oneflow.{_HOMES[name]}"), name)
