"""Context parallelism: attention over a sequence whose parts lie on several ranks.

:func:`ring_attention` sends keys and values around (Liu et al., "Ring Attention with Blockwise Transformers", 2023) and
merges partial results by their log-sum-exps; :func:`ulysses_attention` trades sequence parts for heads and back (Jacobs
et al., "DeepSpeed Ulysses", 2023). Both are exact. Tensors are each rank's own; for global tensors see
``oneflow.models.ParallelLayout``, for PyTorch's names ``oneflow.distributed.tensor.experimental``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor, distributed
from oneflow._base.untraced import untraced
from oneflow.distributed import _functional_collectives as functional
from oneflow.distributed import _ring

__all__ = ["Spans", "balanced_spans", "even_spans", "order_of", "ring_attention", "ulysses_attention"]

#: The positions that each rank holds: for each rank its runs ``(first, end)``, in the order in which they lie there.
Spans = list[list[tuple[int, int]]]


def even_spans(length: int, n_ranks: int) -> Spans:
    """One run of positions for each rank; the first ranks have one more where ``n_ranks`` does not divide.

    Example::

        >>> from oneflow.distributed.context import even_spans
        >>> even_spans(5, 2)
        [[(0, 3)], [(3, 5)]]
    """
    return [[(start, end)] for start, end in _runs(_shares(length, n_ranks))]


def balanced_spans(length: int, n_ranks: int) -> Spans:
    """Two runs for each rank, one from the beginning and one from the end of the sequence ("zig-zag").

    Under a causal mask late positions see more than early ones; with these runs all ranks have the same work. Ranks
    hold as many positions as under :func:`even_spans`.

    Example::

        >>> from oneflow.distributed.context import balanced_spans
        >>> balanced_spans(8, 2)
        [[(0, 2), (6, 8)], [(2, 4), (4, 6)]]
    """
    shares = _shares(length, n_ranks)
    heads = [(share + 1) // 2 for share in shares]
    tails = [share // 2 for share in shares]
    runs = _runs([*heads, *reversed(tails)])
    return [[runs[rank], runs[2 * n_ranks - 1 - rank]] for rank in range(n_ranks)]


def order_of(spans: Spans) -> list[int]:
    """The positions in the order in which the ranks hold them.

    Example::

        >>> from oneflow.distributed.context import balanced_spans, order_of
        >>> order_of(balanced_spans(8, 2))
        [0, 1, 6, 7, 2, 3, 4, 5]
    """
    return [position for runs in spans for first, end in runs for position in range(first, end)]


def _shares(length: int, n: int) -> list[int]:
    each, more = divmod(length, n)
    return [each + (i < more) for i in range(n)]


def _runs(lengths: Sequence[int]) -> list[tuple[int, int]]:
    runs, start = [], 0
    for length in lengths:
        runs.append((start, start + length))
        start += length
    return runs


def ring_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    spans: Spans | None = None,
    method: str = "ring",
    group: Any = None,
) -> Tensor:
    """Attention of this rank's queries over the keys and values of all ranks.

    With ``method="ring"`` a rank holds two blocks of keys and values at a time, and the next one travels while the
    present one is worked on; with ``"allgather"`` all of them. Either way a rank of ``n`` sends its own keys and values
    ``n - 1`` times forward, and backward as much again and as much in gradients.

    Args:
        query: (batch, heads, time, head_dim), this rank's part of the sequence.
        key, value: (batch, kv_heads, seen, head_dim) and (batch, kv_heads, seen, value_dim), this rank's parts.
        attn_mask: broadcastable to (batch, heads, time, all that the ranks hold), its last dimension in the order of
            ranks; bool (True takes part) or added to the scores.
        is_causal: no position sees a later one; queries and keys lie alike. Excludes ``attn_mask``.
        scale: of the scores, ``1 / sqrt(head_dim)`` by default.
        enable_gqa: several heads share keys and values.
        spans: the positions that each rank holds; :func:`even_spans` of the whole length by default.
            :func:`balanced_spans` share the work of a causal mask evenly.
        method: "ring" or "allgather".
        group: the process group; all ranks by default.

    Raises:
        ValueError: parts that are not of four dimensions or do not fit together or the spans.
        NotImplementedError: a gradient of the gradient; inside ``nn.Graph``, ranks that hold other numbers of positions
            than :func:`even_spans`.

    Example::

        >>> from oneflow.distributed.context import ring_attention
        >>> def rank():
        ...     x = oneflow.ones(1, 2, 3, 4)
        ...     return ring_attention(x, x, x, is_causal=True).shape
        >>> oneflow.testing.run_ranks(2, rank)
        [oneflow.Size([1, 2, 3, 4]), oneflow.Size([1, 2, 3, 4])]
    """
    if method not in ("ring", "allgather"):
        raise ValueError(f"ring_attention: method must be 'ring' or 'allgather', got {method!r}")
    _check("ring_attention", query, key, value, attn_mask, is_causal, enable_gqa)
    lengths = _held(key, spans, group)
    if is_causal and query.shape[2] != key.shape[2]:
        raise ValueError(
            f"ring_attention: is_causal needs queries and keys of the same positions, got query {tuple(query.shape)} "
            f"and key {tuple(key.shape)}"
        )
    if attn_mask is not None:
        attn_mask = _as_four(attn_mask, sum(lengths))
    runs = [[run] for run in _runs(lengths)] if spans is None else spans
    kind = _ring.TracedRing if oneflow._oneflow._is_tracing() else _ring.Ring
    ring = kind(runs, is_causal, query.shape[2], method == "allgather", group)
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    return _ring.RingAttention.apply(query, key, value, attn_mask, factor, ring)


def ulysses_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    *,
    dropout_p: float = 0.0,
    scale: float | None = None,
    enable_gqa: bool = False,
    spans: Spans | None = None,
    key_spans: Spans | None = None,
    group: Any = None,
) -> Tensor:
    """Attention of this rank's queries, computed for a part of the heads over the whole sequence.

    Queries, keys and values go through an all-to-all that gathers the sequence and splits the heads, and the result
    goes back through another. A rank of ``n`` sends ``(n - 1) / n`` of its queries, keys, values and results.

    Args:
        query: (batch, heads, time, head_dim), this rank's part of the sequence.
        key, value: (batch, kv_heads, seen, head_dim) and (batch, kv_heads, seen, value_dim). The number of ranks
            divides both numbers of heads.
        attn_mask: broadcastable to (batch, heads of this rank, whole time, whole seen), in the order of positions.
        is_causal: no position sees a later one. Excludes ``attn_mask``.
        dropout_p: probability of leaving a weight out.
        spans: the positions that each rank holds; :func:`even_spans` of the whole length by default.
        key_spans: those of keys and values, where they are not the same.
        scale, enable_gqa, group: as in :func:`ring_attention`.

    Raises:
        ValueError: the number of ranks does not divide the heads, or parts do not fit together.

    Example::

        >>> from oneflow.distributed.context import ulysses_attention
        >>> def rank():
        ...     x = oneflow.ones(1, 2, 3, 4)
        ...     return ulysses_attention(x, x, x, is_causal=True).shape
        >>> oneflow.testing.run_ranks(2, rank)
        [oneflow.Size([1, 2, 3, 4]), oneflow.Size([1, 2, 3, 4])]
    """
    _check("ulysses_attention", query, key, value, attn_mask, is_causal, enable_gqa)
    me, n = distributed.get_rank(group), distributed.get_world_size(group)
    if query.shape[1] % n or key.shape[1] % n:
        raise ValueError(
            f"ulysses_attention: {query.shape[1]} heads and {key.shape[1]} of keys and values do not divide by "
            f"{n} ranks"
        )

    def whole(x: Tensor, lengths: list[int]) -> Tensor:
        """(batch, heads, own time, dim) to (batch, own heads, time, dim)."""
        batch, heads, time, dim = x.shape
        # A row for each head and position: a rank's heads are sent together.
        rows = x.permute(1, 2, 0, 3).reshape(heads * time, batch, dim)
        own = heads // n
        sizes = [own * length for length in lengths]
        parts = functional.all_to_all_single(rows, sizes, [own * time] * n, group).split(sizes)
        joined = oneflow.cat([p.view(own, -1, batch, dim) for p in parts], 1)
        return joined.permute(2, 0, 1, 3)

    def back(x: Tensor, lengths: list[int]) -> Tensor:
        """(batch, own heads, time, dim) to (batch, heads, own time, dim)."""
        batch, own, _, dim = x.shape
        parts = [p.permute(1, 2, 0, 3).reshape(-1, batch, dim) for p in x.split(lengths, 2)]
        sizes = [own * length for length in lengths]
        rows = functional.all_to_all_single(oneflow.cat(parts), [own * lengths[me]] * n, sizes, group)
        return rows.view(n * own, lengths[me], batch, dim).permute(2, 0, 1, 3)

    if key_spans is None and query.shape[2] == key.shape[2]:
        key_spans = spans
    asked, seen = _held(query, spans, group), _held(key, key_spans, group)
    q = _in_order(whole(query, asked), spans)
    k, v = (_in_order(whole(x, seen), key_spans) for x in (key, value))
    y = oneflow.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )
    if spans is not None and _is_shuffled(spans):
        y = y.index_select(2, oneflow.tensor(order_of(spans), device=query.device))
    return back(y, asked)


def _is_shuffled(spans: Spans) -> bool:
    order = order_of(spans)
    return order != sorted(order)


def _in_order(x: Tensor, spans: Spans | None) -> Tensor:
    """(batch, heads, time, dim) in the order of positions."""
    if spans is None or not _is_shuffled(spans):
        return x
    return x.index_select(2, oneflow.tensor(order_of(spans), device=x.device).argsort())


def _held(x: Tensor, spans: Spans | None, group: Any) -> list[int]:
    """How many positions each rank holds."""
    own, me = x.shape[2], distributed.get_rank(group)
    if spans is None:
        return _lengths(own, group)
    lengths = [sum(end - start for start, end in runs) for runs in spans]
    if len(lengths) != distributed.get_world_size(group) or lengths[me] != own:
        raise ValueError(
            f"context parallelism: rank {me} of {distributed.get_world_size(group)} has a tensor of shape "
            f"{tuple(x.shape)}, but the spans give the ranks {lengths} positions"
        )
    return lengths


def _lengths(own: int, group: Any) -> list[int]:
    """How many positions each rank holds."""
    found: list[Any] = [None] * distributed.get_world_size(group)
    with untraced():
        distributed.all_gather_object(found, own, group)
    return found


def _check(
    name: str, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, shared: bool
) -> None:
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)}"
    if any(x.is_global for x in (query, key, value)):
        raise ValueError(f"{name}: takes each rank's own tensors, got a global tensor")
    if any(x.dim() != 4 for x in (query, key, value)):
        raise ValueError(f"{name}: {shapes} must be (batch, heads, time, head_dim)")
    heads = query.shape[1] == key.shape[1] or (shared and key.shape[1] > 0 and query.shape[1] % key.shape[1] == 0)
    if (
        not heads
        or query.shape[0] != key.shape[0]
        or key.shape[:3] != value.shape[:3]
        or query.shape[3] != key.shape[3]
    ):
        raise ValueError(f"{name}: {shapes} do not fit together")
    if mask is not None and is_causal:
        raise ValueError(f"{name}: give attn_mask or is_causal, not both")


def _as_four(mask: Tensor, seen: int) -> Tensor:
    if mask.dim() < 2 or mask.dim() > 4 or mask.shape[-1] not in (1, seen):
        raise ValueError(
            f"ring_attention: attn_mask of shape {tuple(mask.shape)} does not cover the {seen} positions of all ranks "
            "in its last dimension"
        )
    mask = mask.view(*(1,) * (4 - mask.dim()), *mask.shape)
    return mask.expand(*mask.shape[:3], seen)
