"""MultiheadAttention."""

from __future__ import annotations

import itertools
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn import init
from oneflow.nn.functional import _attention
from oneflow.nn.modules.linear import NonDynamicallyQuantizableLinear
from oneflow.nn.modules.module import Module
from oneflow.nn.parameter import Parameter


class MultiheadAttention(Module):
    """Attention in ``num_heads`` subspaces, between projections.

    Args:
        embed_dim: width of query and output.
        num_heads: divides embed_dim.
        dropout: probability of dropping an attention weight, in training.
        bias: of all projections.
        add_bias_kv: one more key and value, learned.
        add_zero_attn: one more key and value, of zeros.
        kdim, vdim: widths of key and value; embed_dim where None.
        batch_first: (N, L, E) instead of (L, N, E).
        device, dtype: of the parameters.

    Parameters are ``in_proj_weight`` (3 * E, E), or ``q_proj_weight``, ``k_proj_weight`` and ``v_proj_weight`` where
    widths differ, ``in_proj_bias``, ``out_proj``, ``bias_k`` and ``bias_v``.

    Example::

        >>> x = oneflow.zeros(5, 2, 16)
        >>> output, weights = oneflow.nn.MultiheadAttention(16, 4)(x, x, x)
        >>> output.shape, weights.shape
        (oneflow.Size([5, 2, 16]), oneflow.Size([2, 5, 5]))

    (Vaswani et al., "Attention Is All You Need", 2017.)
    """

    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        e, same = embed_dim, self._qkv_same_embed_dim
        shapes: dict[str, tuple[int, ...] | None] = {
            "q_proj_weight": None if same else (e, e),
            "k_proj_weight": None if same else (e, self.kdim),
            "v_proj_weight": None if same else (e, self.vdim),
            "in_proj_weight": (3 * e, e) if same else None,
            "in_proj_bias": (3 * e,) if bias else None,
        }
        for name, shape in shapes.items():
            self._add(name, shape, device, dtype)
        self.out_proj = NonDynamicallyQuantizableLinear(e, e, bias=bias, device=device, dtype=dtype)
        for name in ("bias_k", "bias_v"):
            if add_bias_kv:
                self._add(name, (1, 1, e), device, dtype)
            else:
                setattr(self, name, None)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _add(self, name: str, shape: tuple[int, ...] | None, device: Any, dtype: Any) -> None:
        tensor = None if shape is None else Parameter(oneflow.empty(shape, device=device, dtype=dtype))
        self.register_parameter(name, tensor)

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.constant_(bias, 0.0)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend; see :func:`oneflow.nn.functional.multi_head_attention_forward` for masks and results.

        Nested tensors (N, *, E) need ``batch_first`` and take no masks; the output is nested as ``query`` is, and the
        weights are those of padded parts, zeros where a part has ended.
        """
        if query.is_nested or key.is_nested or value.is_nested:
            if key_padding_mask is not None or attn_mask is not None or not self.batch_first:
                raise AssertionError(
                    "MultiheadAttention: nested tensors need batch_first=True and take no key_padding_mask or attn_mask"
                )
            return self._of_nested(query, key, value, need_weights, average_attn_weights, is_causal)
        other = None if attn_mask is None else attn_mask.dtype
        key_padding_mask = _attention.canonical_mask(
            key_padding_mask, "key_padding_mask", other, "attn_mask", query.dtype
        )
        attn_mask = _attention.canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, check_other=False)
        turned = self.batch_first and query.dim() == 3
        if turned:
            # Equal tensors stay one object: they are projected by one product.
            turns: dict[int, Tensor] = {id(x): x.transpose(1, 0) for x in (query, key, value)}
            query, key, value = turns[id(query)], turns[id(key)], turns[id(value)]
        output, weights = _attention.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (output.transpose(1, 0), weights) if turned else (output, weights)

    def _of_nested(
        self, query: Tensor, key: Tensor, value: Tensor, need_weights: bool, average: bool, is_causal: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Attention of padded parts."""
        if not (query.is_nested and key.is_nested and value.is_nested):
            raise AssertionError("MultiheadAttention: query, key and value must all be nested tensors, or none")
        nested: Any = oneflow.nested
        padded = {id(x): nested.to_padded_tensor(x, 0.0) for x in (query, key, value)}
        lengths, of_keys, of_values = ([len(part) for part in x.unbind()] for x in (query, key, value))
        if of_keys != of_values or len(of_keys) != len(lengths):
            raise AssertionError(
                f"MultiheadAttention: nested query, key and value have parts of lengths {lengths}, {of_keys} and "
                f"{of_values}: as many of each, and those of key and value equal"
            )
        q, k, v = (padded[id(x)] for x in (query, key, value))
        output, weights = self.forward(q, k, v, _ended(of_keys, k), need_weights, None, average, is_causal)
        parts = [row[:n] for row, n in zip(output, lengths, strict=True)]
        if weights is not None:
            rows = _ended(lengths, q).unsqueeze(-1)
            weights = weights.masked_fill(rows if average else rows.unsqueeze(1), 0.0)
        if query.layout is oneflow.strided:
            return nested.as_nested_tensor(parts), weights
        starts = oneflow.tensor([0, *itertools.accumulate(lengths)], device=output.device)
        return nested.nested_tensor_from_jagged(oneflow.cat(parts), starts), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one (N, heads, L, L), and its kind: 1 of keys only, 2 otherwise; None without masks."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, n, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.reshape(batch, -1, n, n)
        else:
            merged = attn_mask.reshape(1, 1, n, n).expand(batch, self.num_heads, n, n)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.reshape(batch, 1, 1, n).expand(batch, self.num_heads, 1, n)
        return merged, 2


def _ended(lengths: list[int], padded: Tensor) -> Tensor:
    """The positions (N, L) behind the ends of the parts."""
    ends = oneflow.tensor(lengths, device=padded.device).unsqueeze(-1)
    return oneflow.arange(padded.shape[1], device=padded.device) >= ends
