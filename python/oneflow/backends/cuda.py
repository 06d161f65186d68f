"""Switches of matrix products and attention on a GPU.

Attention has kernels of this package's own, which serve everything and are what "flash", "mem_efficient" and "math"
name, and cuDNN's. cuDNN's runs where it alone is allowed (what it does not take is an error then), or where
``sdpa_kernel`` with ``set_priority=True`` names it before the others (what it does not take goes to our kernels, said
once). Otherwise our kernels run: which of the two is faster on which card has not been measured.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from oneflow import _oneflow, _settings
from oneflow._base import attention_choice
from oneflow._base.float32_precision import Switch

if TYPE_CHECKING:
    from oneflow import Tensor

__all__ = [
    "SDPAParams",
    "can_use_cudnn_attention",
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
    return attention_choice.enabled["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Allow the tiled kernel of attention.

    Example::

        >>> oneflow.backends.cuda.enable_flash_sdp(True)
        >>> oneflow.backends.cuda.flash_sdp_enabled()
        True
    """
    attention_choice.choose({"flash": bool(enabled)})


def math_sdp_enabled() -> bool:
    """Return whether attention composed of products and a softmax is allowed.

    Example::

        >>> isinstance(oneflow.backends.cuda.math_sdp_enabled(), bool)
        True
    """
    return attention_choice.enabled["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Allow attention composed of products and a softmax.

    Example::

        >>> oneflow.backends.cuda.enable_math_sdp(True)
        >>> oneflow.backends.cuda.math_sdp_enabled()
        True
    """
    attention_choice.choose({"math": bool(enabled)})


def mem_efficient_sdp_enabled() -> bool:
    """Return whether the memory-efficient kernel of attention is allowed; it is the tiled one.

    Example::

        >>> isinstance(oneflow.backends.cuda.mem_efficient_sdp_enabled(), bool)
        True
    """
    return attention_choice.enabled["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow the memory-efficient kernel of attention; it is the tiled one.

    Example::

        >>> oneflow.backends.cuda.enable_mem_efficient_sdp(True)
        >>> oneflow.backends.cuda.mem_efficient_sdp_enabled()
        True
    """
    attention_choice.choose({"mem_efficient": bool(enabled)})


def cudnn_sdp_enabled() -> bool:
    """Return whether cuDNN's attention is allowed; it runs where it alone is, or is preferred (``sdpa_kernel``).

    Example::

        >>> isinstance(oneflow.backends.cuda.cudnn_sdp_enabled(), bool)
        True
    """
    return attention_choice.enabled["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow cuDNN's attention; it runs where it alone is allowed, or is preferred (``sdpa_kernel``).

    Example::

        >>> oneflow.backends.cuda.enable_cudnn_sdp(True)
        >>> oneflow.backends.cuda.cudnn_sdp_enabled()
        True
    """
    attention_choice.choose({"cudnn": bool(enabled)})


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
    return attention_choice.enabled["flash"]


class SDPAParams:
    """Operands of ``scaled_dot_product_attention``, for the functions that say who can compute it.

    Args:
        query, key, value: (batch, heads, L, E), (batch, heads, S, E), (batch, heads, S, V).
        attn_mask: broadcastable to (batch, heads, L, S), or None.
        dropout: probability of dropping an attention weight.
        is_causal: position i sees keys 0..i only.
        enable_gqa: key and value may have fewer heads.

    Example::

        >>> q = oneflow.ones(1, 1, 2, 8)
        >>> oneflow.backends.cuda.SDPAParams(q, q, q, None, 0.0, True, False).is_causal
        True
    """

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None,
        dropout: float,
        is_causal: bool,
        enable_gqa: bool = False,
    ) -> None:
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return whether cuDNN can compute this attention, and its backward where an operand requires gradients.

    Args:
        params: the operands.
        debug: warn with the reason where it cannot.

    Example::

        >>> q = oneflow.ones(1, 1, 2, 8)
        >>> oneflow.backends.cuda.can_use_cudnn_attention(oneflow.backends.cuda.SDPAParams(q, q, q, None, 0.0, False))
        False
    """
    p, why = params, None
    if not attention_choice.enabled["cudnn"]:
        why = "it is switched off (enable_cudnn_sdp)"
    elif p.query.ndim == p.key.ndim == 4 and not p.enable_gqa and p.query.shape[1] != p.key.shape[1]:
        why = f"query has {p.query.shape[1]} heads and key {p.key.shape[1]}, and enable_gqa is False"
    else:
        why = _oneflow._cuda_attention_refusal(p.query, p.key, p.value, p.attn_mask, p.dropout, p.is_causal)
    if why is not None and debug:
        warnings.warn(f"cuDNN attention is not used: {why}", stacklevel=2)
    return why is None


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
    before = dict(attention_choice.enabled)
    attention_choice.choose(
        {"flash": enable_flash, "math": enable_math, "mem_efficient": enable_mem_efficient, "cudnn": enable_cudnn}
    )
    try:
        yield
    finally:
        attention_choice.choose(before)
