"""Multi-head attention as a function, over the fused scaled dot-product attention."""

from __future__ import annotations

import math
import warnings
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow

# An op that a functional only renames is bound directly: a frame around it would double the cost of a small call.
scaled_dot_product_attention = _oneflow.scaled_dot_product_attention


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention in ``num_heads`` subspaces, between projections.

    Args:
        query: (L, N, E) or (L, E).
        key, value: (S, N, E of key), (S, N, E of value), or without N.
        embed_dim_to_check: E.
        in_proj_weight, in_proj_bias: (3 * E, E) and (3 * E,), of query, key and value one after the other.
        bias_k, bias_v: (1, 1, E), one more key and value.
        add_zero_attn: one more key and value, of zeros.
        dropout_p: probability of dropping a weight, in training.
        key_padding_mask: (N, S) or (S,); bool (True is ignored) or added to the scores.
        need_weights: also return the weights; without them they are never held.
        attn_mask: (L, S) or (N * heads, L, S); bool (True is ignored) or added to the scores.
        use_separate_proj_weight: use q_proj_weight (E, E), k_proj_weight (E, E of key), v_proj_weight (E, E of value).
        static_k, static_v: (N * heads, S, E / heads), instead of projected ones.
        average_attn_weights: the mean of the weights over the heads.
        is_causal: a hint that attn_mask is the causal one.

    Returns:
        (L, N, E) or (L, E); and the weights, (N, L, S) or, not averaged, (N, heads, L, S), without N as the query.

    Example::

        >>> attention = nn.MultiheadAttention(4, 2)
        >>> x = oneflow.ones(3, 1, 4)
        >>> y, weights = F.multi_head_attention_forward(x, x, x, 4, 2, attention.in_proj_weight,
        ...     attention.in_proj_bias, None, None, False, 0.0, attention.out_proj.weight, attention.out_proj.bias)
        >>> y.shape, weights.shape
        (oneflow.Size([3, 1, 4]), oneflow.Size([1, 3, 3]))
    """
    batched = _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    n_rows, batch, width = query.shape
    n_keys = key.shape[0]
    key_padding_mask = canonical_mask(
        key_padding_mask, "key_padding_mask", None if attn_mask is None else attn_mask.dtype, "attn_mask", query.dtype
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None
    else:
        attn_mask = canonical_mask(attn_mask, "attn_mask", None, "", query.dtype)
        if key_padding_mask is not None:
            is_causal = False
    _require(width == embed_dim_to_check, f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    head_width = width // num_heads
    _require(head_width * num_heads == width, f"embed_dim {width} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        _require(
            key.shape[:2] == value.shape[:2],
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}",
        )
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        for name, weight in zip("qkv", weights, strict=True):
            _require(weight is not None, f"use_separate_proj_weight is True but {name}_proj_weight is None")
        q, k, v = _project(query, key, value, weights, in_proj_bias)
    else:
        _require(key.shape == value.shape, f"key shape {key.shape} does not match value shape {value.shape}")
        if in_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = _project_packed(query, key, value, in_proj_weight, in_proj_bias)
    attn_mask = _check_mask(attn_mask, n_rows, n_keys, batch * num_heads)

    def heads(x: Tensor) -> Tensor:
        """(S, N, E) as (N, heads, S, E / heads)."""
        return x.reshape(x.shape[0], batch, num_heads, head_width).permute(1, 2, 0, 3)

    if bias_k is not None or bias_v is not None:
        if bias_k is None or bias_v is None:
            raise AssertionError("bias_k and bias_v are set together or not at all")
        _require(static_k is None, "bias cannot be added to static key.")
        _require(static_v is None, "bias cannot be added to static value.")
        k = oneflow.cat([k, bias_k.expand(1, batch, width)])
        v = oneflow.cat([v, bias_v.expand(1, batch, width)])
        attn_mask, key_padding_mask = _one_more_key(attn_mask), _one_more_key(key_padding_mask)
    q = heads(q)
    k = heads(k) if static_k is None else _static(static_k, "static_k", batch, num_heads, head_width)
    v = heads(v) if static_v is None else _static(static_v, "static_v", batch, num_heads, head_width)
    if add_zero_attn:
        zeros = k.new_zeros((batch, num_heads, 1, head_width))
        k, v = oneflow.cat([k, zeros], 2), oneflow.cat([v, zeros], 2)
        attn_mask, key_padding_mask = _one_more_key(attn_mask), _one_more_key(key_padding_mask)
    mask = _one_mask(attn_mask, key_padding_mask, (batch, num_heads, n_rows, k.shape[2]))
    dropout_p = dropout_p if training else 0.0
    weights_out = None
    if need_weights:
        out, weights_out = _with_weights(q, k, v, mask, dropout_p)
    else:
        out = scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal and mask is None)
    out = out.permute(2, 0, 1, 3).reshape(n_rows, batch, width)
    out = _oneflow.linear(out, out_proj_weight, out_proj_bias)
    if weights_out is not None and average_attn_weights:
        weights_out = weights_out.mean(1)
    if not batched:
        out = out.squeeze(1)
        weights_out = None if weights_out is None else weights_out.squeeze(0)
    return out, weights_out


def _one_mask(
    attn_mask: Tensor | None, key_padding_mask: Tensor | None, shape: tuple[int, int, int, int]
) -> Tensor | None:
    """Both masks as one to add to scores of ``shape`` (N, heads, L, S), of size one where it is the same."""
    batch, num_heads, n_rows, n_keys = shape
    if attn_mask is not None:
        of_all = attn_mask.shape[0] == 1
        attn_mask = attn_mask.reshape((1, 1, n_rows, n_keys) if of_all else (batch, num_heads, n_rows, n_keys))
    if key_padding_mask is None:
        return attn_mask
    for i, n in enumerate((batch, n_keys)):
        got = key_padding_mask.shape[i]
        _require(got == n, f"Expected key_padded_mask.shape[{i}] to be {n}, but got {got}")
    of_keys = key_padding_mask.reshape(batch, 1, 1, n_keys)
    return of_keys if attn_mask is None else attn_mask + of_keys


def _with_weights(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float) -> tuple[Tensor, Tensor]:
    """Attention with its weights in memory: (N, heads, L, E) and (N, heads, L, S)."""
    scores = (q * math.sqrt(1.0 / q.shape[-1])).matmul(k.transpose(-2, -1))
    weights = (scores if mask is None else scores + mask).softmax(-1)
    if dropout_p > 0.0:
        weights = _oneflow._C.native_dropout(weights, dropout_p)[0]
    return weights.matmul(v), weights


def canonical_mask(
    mask: Tensor | None, name: str, other_dtype: Any, other_name: str, dtype: Any, check_other: bool = True
) -> Tensor | None:
    """A bool mask (True is ignored) as numbers to add: minus infinity and zeros of ``dtype``; a float mask as it is."""
    if mask is None:
        return None
    is_float = mask.is_floating_point()
    _require(mask.dtype == oneflow.bool or is_float, f"only bool and floating types of {name} are supported")
    if check_other and other_dtype is not None and mask.dtype != other_dtype:
        warnings.warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=3,
        )
    return mask if is_float else oneflow.zeros_like(mask, dtype=dtype).masked_fill(mask, -math.inf)


def _require(fits: bool, text: str) -> None:
    if not fits:
        raise AssertionError(text)


def _check_ranks(
    query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None, num_heads: int
) -> bool:
    """Return whether there is a batch dimension; every other tensor has to agree."""
    n = query.dim()
    if n not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {n}-D query tensor")
    kind = "batched (3-D)" if n == 3 else "unbatched (2-D)"
    _require(
        key.dim() == n and value.dim() == n,
        f"For {kind} `query`, expected `key` and `value` to be {n}-D but found {key.dim()}-D and {value.dim()}-D "
        "tensors respectively",
    )
    _require(
        key_padding_mask is None or key_padding_mask.dim() == n - 1,
        f"For {kind} `query`, expected `key_padding_mask` to be `None` or {n - 1}-D but found "
        f"{0 if key_padding_mask is None else key_padding_mask.dim()}-D tensor instead",
    )
    if attn_mask is not None:
        _require(
            attn_mask.dim() in (2, 3),
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor "
            "instead",
        )
        if n == 2 and attn_mask.dim() == 3:
            shape = (num_heads, query.shape[0], key.shape[0])
            _require(
                tuple(attn_mask.shape) == shape,
                f"Expected `attn_mask` shape to be {shape} but got {attn_mask.shape}",
            )
    return n == 3


def _check_mask(mask: Tensor | None, n_rows: int, n_keys: int, n_heads: int) -> Tensor | None:
    """The mask with a first dimension for heads, of size one or ``n_heads``."""
    if mask is None:
        return None
    n = mask.dim()
    if n not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {n} is not supported")
    shape = (n_rows, n_keys) if n == 2 else (n_heads, n_rows, n_keys)
    if tuple(mask.shape) != shape:
        raise RuntimeError(f"The shape of the {n}D attn_mask is {mask.shape}, but should be {shape}.")
    return mask.unsqueeze(0) if n == 2 else mask


def _project(
    query: Tensor, key: Tensor, value: Tensor, weights: Any, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    e = query.shape[-1]
    biases = (None, None, None) if bias is None else bias.chunk(3)
    out = []
    names = ("query", "key", "value")
    for name, x, weight, b in zip(names, (query, key, value), weights, biases, strict=True):
        shape = (e, x.shape[-1])
        _require(tuple(weight.shape) == shape, f"expecting {name} weights shape of {shape}, but got {weight.shape}")
        _require(
            b is None or tuple(b.shape) == (e,),
            f"expecting {name} bias shape of {(e,)}, but got {None if b is None else b.shape}",
        )
        out.append(_oneflow.linear(x, weight, b))
    return out[0], out[1], out[2]


def _project_packed(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """One product for inputs that are the same tensor."""
    e = query.shape[-1]
    if query is key and key is value:
        q, k, v = _oneflow.linear(query, weight, bias).chunk(3, -1)
        return q, k, v
    if key is value:
        of_query, of_both = weight.split([e, 2 * e])
        b_query, b_both = (None, None) if bias is None else bias.split([e, 2 * e])
        k, v = _oneflow.linear(key, of_both, b_both).chunk(2, -1)
        return _oneflow.linear(query, of_query, b_query), k, v
    biases = (None, None, None) if bias is None else bias.chunk(3)
    q, k, v = (_oneflow.linear(x, w, b) for x, w, b in zip((query, key, value), weight.chunk(3), biases, strict=True))
    return q, k, v


def _one_more_key(mask: Tensor | None) -> Tensor | None:
    """The mask with a column of zeros behind it: the added key is seen."""
    return None if mask is None else oneflow.cat([mask, mask.new_zeros((*mask.shape[:-1], 1))], -1)


def _static(x: Tensor, name: str, batch: int, num_heads: int, head_width: int) -> Tensor:
    for dim, n in ((0, batch * num_heads), (2, head_width)):
        _require(x.shape[dim] == n, f"expecting {name}.size({dim}) of {n}, but got {x.shape[dim]}")
    return x.reshape(batch, num_heads, x.shape[1], head_width)
