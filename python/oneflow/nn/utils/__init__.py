"""Operations on modules and their parameters: clipping, norms, parametrizations, pruning, fusion."""

from __future__ import annotations

from typing import Any

from oneflow._base.lazy import LazyNames as _LazyNames
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
    "convert_conv2d_weight_memory_format",
    "convert_conv3d_weight_memory_format",
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

_FORMATS = ("convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format")
_lazy = _LazyNames(__name__, ("stateless",), {"nn.utils.memory_format": _FORMATS})


def __getattr__(name: str) -> Any:
    return _lazy.find(name)


def __dir__() -> list[str]:
    return _lazy.dir()
