"""Switches of matrix products and attention on a GPU. They are kept; kernels choose for themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from oneflow import _settings
from oneflow._base.float32_precision import Switch

__all__ = [
    "can_use_flash_attention",
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_linalg_library",
    "sdp_kernel",
]


class _Matmul(Switch):
    """How products of matrices on a GPU may round: stored and read back, they are computed in full."""

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    allow_fp16_accumulation = False

    @property
    def allow_tf32(self) -> bool:
        return self.fp32_precision == "tf32"

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        self.fp32_precision = "tf32" if allowed else "ieee"
        _settings._state["precision"] = "high" if allowed else "highest"


matmul = _Matmul("cuda", "matmul")
_enabled = {"flash": True, "math": True, "mem_efficient": True, "cudnn": True}


def is_built() -> bool:
    """Return True: every build can use a GPU; :func:`oneflow.cuda.is_available` returns whether there is one.

    Example::

        >>> isinstance(oneflow.backends.cuda.is_built(), bool)
        True
    """
    return True


def flash_sdp_enabled() -> bool:
    """Return whether the tiled kernel of attention is allowed.

    Example::

        >>> isinstance(oneflow.backends.cuda.flash_sdp_enabled(), bool)
        True
    """
    return _enabled["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Allow the tiled kernel of attention.

    Example::

        >>> oneflow.backends.cuda.enable_flash_sdp(True)
        >>> oneflow.backends.cuda.flash_sdp_enabled()
        True
    """
    _enabled["flash"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """Return whether attention composed of products and a softmax is allowed.

    Example::

        >>> isinstance(oneflow.backends.cuda.math_sdp_enabled(), bool)
        True
    """
    return _enabled["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Allow attention composed of products and a softmax.

    Example::

        >>> oneflow.backends.cuda.enable_math_sdp(True)
        >>> oneflow.backends.cuda.math_sdp_enabled()
        True
    """
    _enabled["math"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """Return whether the memory-efficient kernel of attention is allowed; it is the tiled one.

    Example::

        >>> isinstance(oneflow.backends.cuda.mem_efficient_sdp_enabled(), bool)
        True
    """
    return _enabled["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow the memory-efficient kernel of attention; it is the tiled one.

    Example::

        >>> oneflow.backends.cuda.enable_mem_efficient_sdp(True)
        >>> oneflow.backends.cuda.mem_efficient_sdp_enabled()
        True
    """
    _enabled["mem_efficient"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """Return whether cuDNN's attention is allowed; it is not used.

    Example::

        >>> isinstance(oneflow.backends.cuda.cudnn_sdp_enabled(), bool)
        True
    """
    return _enabled["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow cuDNN's attention; it is not used.

    Example::

        >>> oneflow.backends.cuda.enable_cudnn_sdp(True)
        >>> oneflow.backends.cuda.cudnn_sdp_enabled()
        True
    """
    _enabled["cudnn"] = bool(enabled)


def is_flash_attention_available() -> bool:
    """Return whether attention has a tiled kernel: always.

    Example::

        >>> oneflow.backends.cuda.is_flash_attention_available()
        True
    """
    return True


def can_use_flash_attention(params: object, debug: bool = False) -> bool:
    """Return whether the tiled kernel of attention may be used: it takes every shape.

    Example::

        >>> oneflow.backends.cuda.can_use_flash_attention(None)
        True
    """
    return _enabled["flash"]


def preferred_linalg_library(backend: object = None) -> str:
    """The one library there is.

    Example::

        >>> oneflow.backends.cuda.preferred_linalg_library()
        'default'
    """
    return "default"


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[None]:
    """Allow some kernels of attention inside. See :func:`oneflow.nn.attention.sdpa_kernel`.

    Example::

        >>> with oneflow.backends.cuda.sdp_kernel(enable_math=False):
        ...     oneflow.backends.cuda.math_sdp_enabled()
        False
    """
    before = dict(_enabled)
    _enabled.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield
    finally:
        _enabled.update(before)
