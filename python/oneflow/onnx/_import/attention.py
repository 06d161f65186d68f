"""Attention in ONNX's forms: `Attention` with caches and windows, `LinearAttention`, rotary positions."""

from __future__ import annotations

import math
from typing import Any

import oneflow as flow
from oneflow.nn import functional as F
from oneflow.onnx._import.registry import Call, handler
from oneflow.onnx._import.values import dtype_of


def _heads(x: Any, n: int) -> Any:
    return x.reshape(x.shape[0], x.shape[1], n, -1).transpose(1, 2)


def _bias(c: Call, q: Any, length: int, past: int, mask: Any, lengths: Any, wide: Any) -> tuple[Any, Any]:
    """What is added to the scores, and which positions are attended (or None, if all are)."""
    n = q.shape[2]
    allowed: Any = None
    added: Any = None
    if mask is not None:
        if mask.shape[-1] < length:
            fill: Any = False if mask.dtype == flow.bool else -math.inf
            mask = F.pad(mask, (0, length - mask.shape[-1]), value=fill)
        if mask.dtype == flow.bool:
            allowed = mask
        else:
            added = mask.to(wide)
    left, right = c.get("left_window_size", -1), c.get("right_window_size", -1)
    causal = c.get("is_causal", 0)
    if lengths is not None:
        valid = flow.arange(length).reshape(1, 1, 1, -1) < lengths.reshape(-1, 1, 1, 1)
        allowed = valid if allowed is None else flow.logical_and(allowed, valid)
    if causal or left >= 0 or right >= 0:
        offset: Any = past
        if lengths is not None and past == 0:
            offset = (lengths - n).reshape(-1, 1, 1, 1)
        position = flow.arange(n).reshape(-1, 1) + offset
        key = flow.arange(length).reshape(1, -1)
        if causal:
            right = 0 if right < 0 else min(right, 0)
        near: Any = None
        if right >= 0:
            near = key <= position + right
        if left >= 0:
            far = key >= position - left
            near = far if near is None else flow.logical_and(near, far)
        allowed = near if allowed is None else flow.logical_and(allowed, near)
    return added, allowed


@handler("Attention")
def attention(
    c: Call,
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    past_k: Any = None,
    past_v: Any = None,
    lengths: Any = None,
) -> Any:
    flat = q.dim() == 3
    if flat:
        n_q, n_kv = c.need("q_num_heads"), c.need("kv_num_heads")
        q, k, v = _heads(q, n_q), _heads(k, n_kv), _heads(v, n_kv)
    past = 0 if past_k is None else past_k.shape[2]
    if past_k is not None:
        k, v = flow.cat([past_k, k], 2), flow.cat([past_v, v], 2)
    present = (k, v)
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = flow.repeat_interleave(k, groups, dim=1), flow.repeat_interleave(v, groups, dim=1)
    scale, softcap = c.get("scale"), c.get("softcap", 0.0)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    precision = c.get("softmax_precision")
    wide = q.dtype if precision is None else dtype_of(precision)
    added, allowed = _bias(c, q, k.shape[2], past, mask, lengths, q.dtype)
    if c.n_outputs <= 3 and not softcap and precision is None and added is None and allowed is None:
        y = F.scaled_dot_product_attention(q, k, v, scale=scale)
        return (_joined(y) if flat else y), *present, None
    root = math.sqrt(scale)
    raw = flow.matmul(q * root, k.transpose(2, 3) * root)
    capped = raw if not softcap else softcap * flow.tanh(raw / softcap)
    biased = capped if added is None else capped + added
    if allowed is not None:
        biased = flow.where(allowed, biased, flow.full((), -math.inf, dtype=biased.dtype))
    none = flow.amax(biased, -1, keepdim=True) == -math.inf
    weights = flow.softmax(biased.to(wide), -1).to(q.dtype)
    weights = flow.where(none, flow.zeros_like(weights), weights)
    y = flow.matmul(weights, v)
    shown = (raw, capped, biased, weights)[c.get("qk_matmul_output_mode", 0)]
    return (_joined(y) if flat else y), *present, shown


def _joined(y: Any) -> Any:
    return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)


@handler("FlexAttention", domain="ai.onnx.preview")
def flex_attention(c: Call, q: Any, k: Any, v: Any) -> Any:
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = flow.repeat_interleave(k, groups, dim=1), flow.repeat_interleave(v, groups, dim=1)
    scale = c.get("scale")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    precision = c.get("softmax_precision")
    wide = (flow.float64 if q.dtype == flow.float64 else flow.float32) if precision is None else dtype_of(precision)
    scores = flow.matmul(q.to(wide), k.transpose(2, 3).to(wide)) * scale
    if c.get("score_mod") is not None:
        (scores,) = c.run(c.get("score_mod"), [scores])
    weights = flow.softmax(scores, -1)
    if c.get("prob_mod") is not None:
        (weights,) = c.run(c.get("prob_mod"), [weights])
    return flow.matmul(weights.to(v.dtype), v)


@handler("LinearAttention")
def linear_attention(c: Call, q: Any, k: Any, v: Any, state: Any = None, decay: Any = None, beta: Any = None) -> Any:
    n_q, n_kv, rule = c.need("q_num_heads"), c.need("kv_num_heads"), c.text("update_rule", "gated_delta")
    dtype = q.dtype
    q, k, v = (_heads(x, n).to(flow.float32) for x, n in ((q, n_q), (k, n_kv), (v, n_kv)))
    batch, steps, width, groups = q.shape[0], q.shape[2], q.shape[3], n_q // n_kv
    scale = c.get("scale", 0.0) or 1 / math.sqrt(width)
    s = flow.zeros(batch, n_kv, width, v.shape[3]) if state is None else state.to(flow.float32)
    g, b = (_factor(x, n_kv) for x in (decay, beta))
    outputs = []
    for t in range(steps):
        kt, vt = k[:, :, t], v[:, :, t]
        if "gated" in rule and g is not None:
            s = s * flow.exp(g[:, :, t]).unsqueeze(-1)
        if "delta" in rule:
            vt = vt - flow.matmul(kt.unsqueeze(-2), s).squeeze(-2)
            vt = vt if b is None else vt * b[:, :, t]
        s = s + kt.unsqueeze(-1) * vt.unsqueeze(-2)
        whole = flow.repeat_interleave(s, groups, dim=1) if groups > 1 else s
        outputs.append(scale * flow.matmul(q[:, :, t].unsqueeze(-2), whole).squeeze(-2))
    y = flow.stack(outputs, 2)
    return _joined(y).to(dtype), s.to(dtype if state is None else state.dtype)


def _factor(x: Any, n: int) -> Any:
    """A factor of each head and step; one that is the same for all heads is spread over them."""
    if x is None:
        return None
    x = x.expand(x.shape[0], x.shape[1], n) if x.shape[2] == 1 else x
    return _heads(x, n).to(flow.float32)


@handler("RotaryEmbedding")
def rotary_embedding(c: Call, x: Any, cos: Any, sin: Any, positions: Any = None) -> Any:
    flat = x.dim() == 3
    if flat:
        x = _heads(x, c.need("num_heads"))
    width = c.get("rotary_embedding_dim", 0) or x.shape[-1]
    turned, rest = x[..., :width], x[..., width:]
    if positions is not None:
        cos, sin = cos[positions], sin[positions]
    cos, sin = cos[..., : width // 2].unsqueeze(1), sin[..., : width // 2].unsqueeze(1)
    if c.get("interleaved", 0):
        a, b = turned[..., 0::2], turned[..., 1::2]
        y = flow.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(turned.shape)
    else:
        a, b = turned[..., : width // 2], turned[..., width // 2 :]
        y = flow.cat([a * cos - b * sin, a * sin + b * cos], -1)
    y = flow.cat([y, rest], -1) if rest.shape[-1] else y
    return _joined(y) if flat else y
