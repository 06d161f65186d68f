"""Causal masks that are not made: attention is told which triangle of its scores is seen."""

from __future__ import annotations

import enum
import warnings
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn.functional import scaled_dot_product_attention

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Where the triangle of the scores that are seen stands: at the first query and key, or at the last ones.

    Example::

        >>> nn.attention.bias.CausalVariant.LOWER_RIGHT.name
        'LOWER_RIGHT'
    """

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A causal mask (queries, keys) for ``scaled_dot_product_attention``; made by :func:`causal_upper_left` and
    :func:`causal_lower_right`. For all else it is an empty tensor, as in PyTorch.

    Args:
        variant: where the triangle stands.
        seq_len_q, seq_len_kv: numbers of queries and keys.

    Raises:
        AssertionError: ``variant`` is not a :class:`CausalVariant`.

    Example::

        >>> nn.attention.bias.CausalBias(nn.attention.bias.CausalVariant.UPPER_LEFT, 2, 3)
        tensor([[ True, False, False],
                [ True,  True, False]])
    """

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        return oneflow.empty(0).as_subclass(cls)

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        super().__init__()
        self.variant = variant
        self.seq_len_q, self.seq_len_kv = seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            warnings.warn(
                "Lower right causal bias: the first queries see no key where seq_len_q > seq_len_kv; "
                "their rows of the output are zero (NaN in PyTorch)",
                stacklevel=2,
            )

    def _materialize(self, device: Any = None) -> Tensor:
        seen = oneflow.ones(self.seq_len_q, self.seq_len_kv, dtype=oneflow.bool, device=device)
        return seen.tril(self.seq_len_kv - self.seq_len_q if self.variant is CausalVariant.LOWER_RIGHT else 0)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is scaled_dot_product_attention:
            return _attention(*args, **(kwargs or {}))
        default: Any = super()
        return default.__torch_function__(func, types, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return repr(self._materialize())


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: CausalBias,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if is_causal:
        raise ValueError("CausalBias should not be used with causal=True")
    sizes = (attn_mask.seq_len_q, attn_mask.seq_len_kv)
    if sizes != (query.shape[-2], key.shape[-2]):
        raise ValueError(
            f"scaled_dot_product_attention(): a CausalBias of {sizes[0]} queries and {sizes[1]} keys does not fit "
            f"a query {tuple(query.shape)} and a key {tuple(key.shape)}"
        )
    options: dict[str, Any] = {"dropout_p": dropout_p, "scale": scale, "enable_gqa": enable_gqa}
    if sizes[0] == sizes[1] or attn_mask.variant is CausalVariant.UPPER_LEFT:
        return scaled_dot_product_attention(query, key, value, is_causal=True, **options)
    return scaled_dot_product_attention(query, key, value, attn_mask._materialize(query.device), **options)


def causal_upper_left(*size: int) -> CausalBias:
    """The mask of ``is_causal=True``: a query sees the keys up to its own number.

    Args:
        size: numbers of queries and keys.

    Raises:
        AssertionError: there are not two sizes.

    Example::

        >>> q, k = oneflow.ones(1, 2, 4), oneflow.ones(1, 3, 4)
        >>> nn.functional.scaled_dot_product_attention(q, k, k, nn.attention.bias.causal_upper_left(2, 3)).shape
        oneflow.Size([1, 2, 4])
    """
    return _bias("causal_upper_left", CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> CausalBias:
    """The mask of queries that are the last ones: the last query sees all keys.

    Args:
        size: numbers of queries and keys.

    Raises:
        AssertionError: there are not two sizes.

    Example::

        >>> nn.attention.bias.causal_lower_right(2, 3)
        tensor([[ True,  True, False],
                [ True,  True,  True]])
    """
    return _bias("causal_lower_right", CausalVariant.LOWER_RIGHT, size)


def _bias(name: str, variant: CausalVariant, size: tuple[int, ...]) -> CausalBias:
    if len(size) != 2:
        raise AssertionError(f"{name} only supports 2D tensors")
    return CausalBias(variant, *size)
