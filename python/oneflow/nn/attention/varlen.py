"""Attention over sequences of different lengths that lie behind one another in one tensor, without padding."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import oneflow
from oneflow import Tensor
from oneflow.nn.functional import scaled_dot_product_attention

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]


class AuxRequest(NamedTuple):
    """What :func:`varlen_attn` gives beside its result.

    Example::

        >>> nn.attention.varlen.AuxRequest(lse=True).lse
        True
    """

    lse: bool = False


def _ends(name: str, positions: Tensor, total: int) -> list[int]:
    """Where sequences begin and end, as numbers that are in order and within the tokens."""
    if positions.ndim != 1 or positions.numel() < 1 or positions.dtype not in (oneflow.int32, oneflow.int64):
        raise ValueError(
            f"varlen_attn(): expected {name} of shape (N + 1,) and dtype int32 or int64, but got "
            f"{tuple(positions.shape)} of {positions.dtype}"
        )
    ends: list[int] = positions.tolist()
    if ends[0] != 0 or ends[-1] > total or any(a > b for a, b in itertools.pairwise(ends)):
        raise ValueError(f"varlen_attn(): expected {name} to rise from 0 to at most the {total} tokens, but got {ends}")
    return ends


def _check(
    query: Tensor, key: Tensor, value: Tensor, scale: float | None, window: list[int], gqa: bool, paged: bool
) -> None:
    if query.ndim != 3 or key.ndim != 3 + paged or value.ndim != key.ndim or key.shape[:-1] != value.shape[:-1]:
        raise ValueError(
            "varlen_attn(): expected a query (T_q, H_q, D) and a key and value "
            f"{'(pages, page size, H_kv, D)' if paged else '(T_k, H_kv, D)'}, but got {tuple(query.shape)}, "
            f"{tuple(key.shape)} and {tuple(value.shape)}"
        )
    n, m = query.shape[1], key.shape[-2]
    if not gqa and n != m:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={n} and Hkv={m}. "
            "Try setting enable_gqa=True for GQA."
        )
    if gqa and n % m != 0:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={n} and Hkv={m}."
        )
    # NaN is refused too.
    if scale is not None and not scale > 0:
        raise ValueError(f"scale must be greater than 0, got {scale}")
    if len(window) != 2:
        raise ValueError(f"window_size must have length 2, got {len(window)}")


def _visible(n_queries: int, n_keys: int, window: list[int], device: oneflow.device) -> Tensor | None:
    """Which keys a query sees: the last query stands at the last key. None: all."""
    left, right = window
    if left < 0 and right < 0:
        return None
    # How far behind its own place a key lies.
    behind = oneflow.arange(n_queries, device=device)[:, None] + (n_keys - n_queries)
    behind = behind - oneflow.arange(n_keys, device=device)
    seen = oneflow.ones(n_queries, n_keys, dtype=oneflow.bool, device=device)
    if left >= 0:
        seen = seen & (behind <= left)
    return seen & (behind >= -right) if right >= 0 else seen


def _log_sums(q: Tensor, k: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    scores = (q.float() @ k.float().mT) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -oneflow.inf)
    sums = scores.logsumexp(-1)
    # A query that sees nothing.
    return sums.masked_fill(sums == -oneflow.inf, oneflow.inf)[0]


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: Sequence[int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention of each sequence to itself, sequence by sequence; on every device, with gradients.

    Args:
        query: (T_q, H_q, D): all tokens of N sequences behind one another.
        key, value: (T_k, H_kv, D); with ``block_table`` pages (pages, page size, H_kv, D).
        cu_seq_q, cu_seq_k: (N + 1,), int32 or int64: where the sequences begin, and the last one ends. ``cu_seq_k``
            may be None with ``block_table``.
        max_q, max_k: lengths of the longest sequences; a longer one is an error.
        return_aux: ``AuxRequest(lse=True)`` asks for the log-sum-exps (H_q, T_q) too.
        scale: factor of the scores, above zero; None: D to the power of -1/2.
        window_size: how many tokens before and behind its own place a query sees, -1: all. (-1, 0) is causal. The
            last query of a sequence stands at its last key.
        enable_gqa: H_q may be a multiple of H_kv.
        seqused_k: (N,): only so many of each sequence's keys take part.
        block_table: (N, pages of a sequence): which pages hold a sequence's keys, in order; needs ``seqused_k``.
        num_splits: how kernels of GPUs may split the keys; 1 or None. Sequences are never split here.

    Returns:
        (T_q, H_q, D of the value); zeros for a query that sees no key. With the log-sum-exps where they are asked for.

    Raises:
        ValueError: shapes, heads, ``scale``, ``window_size`` or positions that do not fit; says which.

    Example::

        >>> x = oneflow.ones(5, 1, 2)
        >>> ends = oneflow.tensor([0, 2, 5])
        >>> nn.attention.varlen.varlen_attn(x, x, x, ends, ends, 3, 3, window_size=(-1, 0)).shape
        oneflow.Size([5, 1, 2])
    """
    window, paged = [int(n) for n in window_size], block_table is not None
    _check(query, key, value, scale, window, enable_gqa, paged)
    if num_splits is not None and num_splits < 1:
        raise ValueError(f"varlen_attn(): num_splits must be at least 1, got {num_splits}")
    if paged and seqused_k is None:
        raise ValueError("varlen_attn(): block_table requires seqused_k")
    starts = _ends("cu_seq_q", cu_seq_q, query.shape[0])
    used: list[int] | None = None if seqused_k is None else seqused_k.tolist()
    if not paged:
        if cu_seq_k is None:
            raise ValueError("varlen_attn(): cu_seq_k may be None only with block_table")
        key_starts = _ends("cu_seq_k", cu_seq_k, key.shape[0])
        if len(key_starts) != len(starts):
            raise ValueError(
                f"varlen_attn(): cu_seq_q has {len(starts) - 1} sequences and cu_seq_k has {len(key_starts) - 1}"
            )
    log_sums = return_aux is not None and return_aux.lse
    outs, sums = [], []
    for i, (start, end) in enumerate(itertools.pairwise(starts)):
        if block_table is not None:
            k, v = (pages[block_table[i].long()].flatten(0, 1) for pages in (key, value))
        else:
            k, v = (t[key_starts[i] : key_starts[i + 1]] for t in (key, value))
        if used is not None:
            if not 0 <= used[i] <= k.shape[0]:
                raise ValueError(f"varlen_attn(): seqused_k[{i}] is {used[i]} of {k.shape[0]} keys")
            k, v = k[: used[i]], v[: used[i]]
        if end - start > max_q or k.shape[0] > max_k:
            raise ValueError(
                f"varlen_attn(): sequence {i} has {end - start} queries and {k.shape[0]} keys, but max_q is {max_q} "
                f"and max_k {max_k}"
            )
        q, k, v = (t.transpose(0, 1)[None] for t in (query[start:end], k, v))
        mask = _visible(q.shape[2], k.shape[2], window, query.device)
        if k.shape[2] == 0:
            out = q.new_zeros(*q.shape[:-1], v.shape[-1])
        elif window == [-1, 0] and q.shape[2] == k.shape[2]:
            out = scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=enable_gqa)
        else:
            out = scaled_dot_product_attention(q, k, v, mask, scale=scale, enable_gqa=enable_gqa)
        outs.append(out[0].transpose(0, 1))
        if log_sums:
            sums.append(_log_sums(q, k, mask, scale))
    rest = query.shape[0] - starts[-1]
    outs.append(query.new_zeros(rest, query.shape[1], value.shape[-1]))
    result = oneflow.cat(outs)
    if not log_sums:
        return result
    return result, oneflow.cat([*sums, query.new_full((query.shape[1], rest), oneflow.inf, dtype=oneflow.float32)], 1)


def varlen_attn_out(
    out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: Sequence[int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """As :func:`varlen_attn`, into ``out`` of the result's shape and dtype.

    Raises:
        ValueError: as :func:`varlen_attn`; ``out`` has another shape or dtype.

    Example::

        >>> x, out = oneflow.ones(5, 1, 2), oneflow.empty(5, 1, 2)
        >>> ends = oneflow.tensor([0, 2, 5])
        >>> nn.attention.varlen.varlen_attn_out(out, x, x, x, ends, ends, 3, 3) is out
        True
    """
    found = varlen_attn(
        query,
        key,
        value,
        cu_seq_q,
        cu_seq_k,
        max_q,
        max_k,
        return_aux=return_aux,
        scale=scale,
        window_size=window_size,
        enable_gqa=enable_gqa,
        seqused_k=seqused_k,
        block_table=block_table,
        num_splits=num_splits,
    )
    result, *sums = found if isinstance(found, tuple) else (found,)
    if out.shape != result.shape or out.dtype != result.dtype:
        raise ValueError(
            f"varlen_attn_out(): expected out of shape {tuple(result.shape)} and {result.dtype}, but got "
            f"{tuple(out.shape)} of {out.dtype}"
        )
    out.copy_(result)
    return (out, sums[0]) if sums else out
