"""What is done to modules and their parameters: clipping, norms, parametrizations, pruning, fusion."""

from __future__ import annotations

import importlib
from typing import Any

from oneflow.nn.utils import parametrizations, parametrize, rnn
from oneflow.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from oneflow.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from oneflow.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from oneflow.nn.utils.init import skip_init
from oneflow.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from oneflow.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "rnn",
    "remove_spectral_norm",
    "remove_weight_norm",
    "skip_init",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]


def __getattr__(name: str) -> Any:
    """Import what needs the rest of the package on first use."""
    if name == "stateless":
        return importlib.import_module("oneflow.nn.utils.stateless")
    raise AttributeError(
        f"module 'oneflow.nn.utils' has no attribute '{name}': this version of oneflow does not provide it"
    )
