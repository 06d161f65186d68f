"""Attention over heads in named layouts: B batch, M position, H head, K width; what is in brackets is one dimension."""

from __future__ import annotations

import math

import oneflow
from oneflow import Tensor
from oneflow._base.global_layouts import replicate_like

# Of a dimension that holds query, key and value (3) or key and value (2), which one is meant.
_PARTS = {"q": 0, "k": 1, "v": 2}


def _split_heads(x: Tensor, layout: str, part: str, k_size: int | None, heads: int | None) -> Tensor:
    """(B, M, H, K) from any layout."""
    if layout in ("BMHK", "BHMK", "MBHK"):
        return x.permute(*(layout.index(letter) for letter in "BMHK"))
    packed = {"(HK)": 1, "(H2K)": 2, "(H3K)": 3}
    order, bracket = layout[:2], layout[2:]
    if order not in ("BM", "MB") or bracket not in packed:
        raise ValueError(f"unknown layout {layout!r} of attention")
    n = packed[bracket]
    if k_size is None:
        if heads is None:
            raise ValueError(f"layout {layout!r} needs the width of a head")
        k_size = x.shape[-1] // (heads * n)
    x = x if order == "BM" else x.transpose(0, 1)
    x = x.reshape(*x.shape[:2], -1, n, k_size)
    return x[:, :, :, _PARTS[part] - (1 if n == 2 else 0) if n > 1 else 0]


def _join_heads(x: Tensor, layout: str) -> Tensor:
    """Any layout of one tensor from (B, M, H, K)."""
    if layout in ("BMHK", "BHMK", "MBHK"):
        return x.permute(*("BMHK".index(letter) for letter in layout))
    if layout == "BM(HK)":
        return x.flatten(2)
    if layout == "MB(HK)":
        return x.flatten(2).transpose(0, 1)
    raise ValueError(f"unknown layout {layout!r} of the result of attention")


def fused_multi_head_attention_inference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    num_heads: int,
    causal: bool = False,
    query_hidden_slice_start: int = 0,
    query_hidden_slice_end: int = -1,
    key_hidden_slice_start: int = 0,
    key_hidden_slice_end: int = -1,
    value_hidden_slice_start: int = 0,
    value_hidden_slice_end: int = -1,
    attn_bias: Tensor | None = None,
    causal_diagonal_offset: int = 0,
) -> Tensor:
    """Attention of (B, M, H * K) queries over keys and values, whose hidden slices may lie in one packed tensor."""

    def part(x: Tensor, start: int, end: int) -> Tensor:
        return x[..., start : x.shape[-1] if end == -1 else end]

    q = part(query, query_hidden_slice_start, query_hidden_slice_end)
    k = part(key, key_hidden_slice_start, key_hidden_slice_end)
    v = part(value, value_hidden_slice_start, value_hidden_slice_end)
    q, k, v = (_split_heads(x, "BM(HK)", "q", None, num_heads) for x in (q, k, v))
    return _attend(q, k, v, causal, causal_diagonal_offset, attn_bias, None).flatten(2)


def fused_multi_head_attention_inference_v2(
    query: Tensor,
    query_layout: str,
    query_head_size: int | None = None,
    key: Tensor | None = None,
    key_layout: str | None = None,
    value: Tensor | None = None,
    value_layout: str | None = None,
    attn_mask_type: str = "none",
    causal_diagonal_offset: int = 0,
    attn_bias: Tensor | None = None,
    output_layout: str = "BM(HK)",
    scale: float | None = None,
) -> Tensor:
    """Attention in any layouts; key and value may be parts of the query's tensor.

    Args:
        attn_mask_type: "none" or "causal" (also "causal_from_bottom_right": the last query sees every key).
        scale: of the products; by default ``1 / sqrt(K)``.
    """
    if attn_mask_type not in ("none", "causal", "causal_from_top_left", "causal_from_bottom_right"):
        raise ValueError(f"unknown attn_mask_type {attn_mask_type!r}")
    q = _split_heads(query, query_layout, "q", query_head_size, None)
    width = q.shape[-1]
    keys, values = (query if key is None else key), (query if value is None else value)
    k = _split_heads(keys, key_layout or query_layout, "k", width, None)
    v = _split_heads(values, value_layout or key_layout or query_layout, "v", width, None)
    offset = causal_diagonal_offset
    if attn_mask_type == "causal_from_bottom_right":
        offset += k.shape[1] - q.shape[1]
    y = _attend(q, k, v, attn_mask_type != "none", offset, attn_bias, scale)
    return _join_heads(y, output_layout)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, offset: int, bias: Tensor | None, scale: float | None
) -> Tensor:
    """(B, M, H, K) of each."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    mask = bias
    if causal:
        allowed = replicate_like(
            q, oneflow.ones(q.shape[2], k.shape[2], dtype=oneflow.bool, device=q.device).tril(offset)
        )
        mask = allowed if bias is None else oneflow.where(allowed, bias, -math.inf)
    y = oneflow.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    return y.transpose(1, 2)


def fused_attention_concat_past_key_value(
    past_key: Tensor | None = None,
    past_key_layout: str | None = None,
    past_value: Tensor | None = None,
    past_value_layout: str | None = None,
    key: Tensor | None = None,
    key_layout: str = "BMHK",
    value: Tensor | None = None,
    value_layout: str = "BMHK",
    key_head_size: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Keys and values after those of the past, along the positions, in the layout of the past (BMHK without one)."""
    if key is None or value is None:
        raise ValueError("fused_attention_concat_past_key_value: key and value are needed")
    results = []
    for past, past_layout, x, layout, part in (
        (past_key, past_key_layout, key, key_layout, "k"),
        (past_value, past_value_layout, value, value_layout, "v"),
    ):
        new = _split_heads(x, layout, part, key_head_size, None)
        if past is not None:
            new = oneflow.cat([_split_heads(past, past_layout or layout, part, key_head_size, None), new], 1)
        results.append(_join_heads(new, past_layout or "BMHK"))
    return results[0], results[1]


def fused_self_attention(hidden_states: Tensor, head_size: int = 8, alpha: float = 1.0) -> tuple[Tensor, Tensor]:
    """Products of queries and keys, and the values, of (M, B, H * 3 * K) packed by heads.

    Returns:
        ``alpha * q @ k.T`` (B, H, M, M) and the values (B, H, M, K).
    """
    m, b, width = hidden_states.shape
    packed = hidden_states.reshape(m, b, width // (3 * head_size), 3, head_size).permute(3, 1, 2, 0, 4)
    q, k, v = packed.unbind(0)
    return q.matmul(k.transpose(-1, -2)) * alpha, v


def fused_codegeex_qkv_reshape(
    query: Tensor, key: Tensor, value: Tensor, num_attention_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(M, B, H * K) as (M, B, H, K), of all three."""
    q, k, v = (x.reshape(*x.shape[:2], num_attention_heads, -1) for x in (query, key, value))
    return q, k, v


def fused_apply_rotary_emb(
    x: Tensor,
    cos: Tensor | None = None,
    sin: Tensor | None = None,
    position_ids: Tensor | None = None,
    x_layout: str = "BHMK",
    output_layout: str | None = None,
    mode: str = "plane",
    tensor_index: int | None = None,
    k_size: int | None = None,
    base: float = 1e4,
    rotary_size: int | None = None,
) -> Tensor:
    """Turn pairs of each head's elements by angles of its position (Su et al., "RoFormer", 2021).

    Args:
        x: in ``x_layout``; ``tensor_index`` names the part of a packed one.
        cos, sin: (positions, rotary_size); computed with ``base`` where they are not given.
        position_ids: (B, M) or (B, 1, M); by default 0, 1, ...
        mode: "plane" pairs element i with i + rotary_size / 2, "interval" neighbours.
        rotary_size: the number of elements that are rotated; the others stay. All by default.
    """
    if mode not in ("plane", "interval"):
        raise ValueError(f"fused_apply_rotary_emb: mode must be 'plane' or 'interval', not {mode!r}")
    heads = _split_heads(x, x_layout, "qkv"[tensor_index or 0], k_size, None)
    size = heads.shape[-1] if rotary_size is None else rotary_size
    if position_ids is None:
        positions = replicate_like(x, oneflow.arange(heads.shape[1], device=x.device))
    else:
        positions = position_ids
    positions = positions.reshape(-1, heads.shape[1])
    if cos is None or sin is None:
        exact = oneflow.float64 if x.dtype == oneflow.float64 else oneflow.float32
        slow = base ** -(oneflow.arange(0, size, 2, device=x.device, dtype=exact) / size)
        angles = positions.unsqueeze(-1) * replicate_like(x, slow)
        angles = oneflow.cat([angles, angles], -1) if mode == "plane" else angles.repeat_interleave(2, -1)
        c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    else:
        c, s = (table.reshape(-1, table.shape[-1])[positions] for table in (cos, sin))
    c, s = c.unsqueeze(2), s.unsqueeze(2)
    turned, rest = heads[..., :size], heads[..., size:]
    if mode == "plane":
        first, second = turned.chunk(2, -1)
        across = oneflow.cat([-second, first], -1)
    else:
        across = oneflow.stack([-turned[..., 1::2], turned[..., ::2]], -1).flatten(-2)
    y = turned * c + across * s
    y = oneflow.cat([y, rest], -1) if rest.shape[-1] else y
    return _join_heads(y, output_layout or (x_layout if "(" not in x_layout else x_layout[:2] + "(HK)"))
