"""Attention whose scores and mask are given as functions of positions.

The functions are called once with tensors of indices that broadcast to ``(batch, heads, queries, keys)``, so the scores
are computed in full: memory grows with queries times keys. What PyTorch skips by blocks is computed and masked here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import oneflow
from oneflow import Tensor

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

# The block size of masks.
_DEFAULT_SPARSE_BLOCK_SIZE = 128
# (batch, head, query, key) -> bool, and (score, batch, head, query, key) -> score
MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def _positions(sizes: tuple[int, ...], device: Any) -> list[Tensor]:
    """An index along each dimension, which broadcast to ``sizes``."""
    shape = [1] * len(sizes)
    return [oneflow.arange(size, device=device).view(*shape[:i], size, *shape[i + 1 :]) for i, size in enumerate(sizes)]


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Every query sees every key.

    Example::

        >>> bool(nn.attention.flex_attention.noop_mask(oneflow.tensor(0), oneflow.tensor(0), oneflow.tensor(1),
        ...     oneflow.tensor(2)))
        True
    """
    return batch.new_ones((), dtype=oneflow.bool)


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """The function that is true where all of ``mask_mods`` are.

    Example::

        >>> from oneflow.nn.attention.flex_attention import and_masks, create_mask
        >>> both = and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: k > 0)
        >>> create_mask(both, 1, 1, 2, 2)
        tensor([[[[False, False],
                  [False,  True]]]])
    """

    def joined(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        result = noop_mask(b, h, q, kv)
        for mod in mask_mods:
            result = result & mod(b, h, q, kv)
        return result

    return joined


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """The function that is true where one of ``mask_mods`` is.

    Example::

        >>> from oneflow.nn.attention.flex_attention import create_mask, or_masks
        >>> either = or_masks(lambda b, h, q, k: q == k, lambda b, h, q, k: k == 0)
        >>> create_mask(either, 1, 1, 2, 2)
        tensor([[[[ True, False],
                  [ True,  True]]]])
    """

    def joined(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        result = b.new_zeros((), dtype=oneflow.bool)
        for mod in mask_mods:
            result = result | mod(b, h, q, kv)
        return result

    return joined


def create_mask(
    mod_fn: MaskMod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None, **_: Any
) -> Tensor:
    """The mask of ``mod_fn`` as a tensor of bool ``(B or 1, H or 1, Q_LEN, KV_LEN)``.

    Example::

        >>> from oneflow.nn.attention.flex_attention import create_mask
        >>> create_mask(lambda b, h, q, k: q >= k, 1, 1, 2, 2)
        tensor([[[[ True, False],
                  [ True,  True]]]])
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    return mod_fn(*_positions(sizes, device)).to(oneflow.bool).expand(sizes)


class AuxRequest(NamedTuple):
    """Selects further results of :func:`flex_attention`.

    Example::

        >>> from oneflow.nn.attention.flex_attention import AuxRequest, flex_attention
        >>> q = oneflow.randn(1, 2, 4, 8)
        >>> y, extra = flex_attention(q, q, q, return_aux=AuxRequest(lse=True))
        >>> extra.lse.shape, extra.max_scores
        (oneflow.Size([1, 2, 4]), None)
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The logarithm of the sum of the scores' exponentials, and the greatest score: ``(batch, heads, queries)``.

    Example::

        >>> from oneflow.nn.attention.flex_attention import AuxRequest, flex_attention
        >>> q = oneflow.randn(1, 2, 4, 8)
        >>> y, extra = flex_attention(q, q, q, return_aux=AuxRequest(max_scores=True))
        >>> type(extra).__name__, extra.max_scores.shape
        ('AuxOutput', oneflow.Size([1, 2, 4]))
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


class BlockMask:
    """Which keys each query sees. Made by :func:`create_block_mask`.

    Args:
        mask: bool ``(batch or 1, heads or 1, queries, keys)``.
        mask_mod: the function it was created from.
        BLOCK_SIZE: rows and columns of the blocks in :meth:`to_dense`.

    Example::

        >>> from oneflow.nn.attention.flex_attention import create_block_mask
        >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256, device="cpu")
        >>> mask.shape, mask.sparsity()
        ((1, 1, 256, 256), 25.0)
    """

    def __init__(self, mask: Tensor, mask_mod: MaskMod, BLOCK_SIZE: tuple[int, int] = (128, 128)) -> None:
        self.mask = mask
        self.mask_mod = mask_mod
        self.BLOCK_SIZE = BLOCK_SIZE
        self.seq_lengths = (mask.shape[-2], mask.shape[-1])

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        **_: Any,
    ) -> BlockMask:
        """A mask of the blocks of keys that each block of queries sees.

        Args:
            kv_num_blocks: integers (batch, heads, blocks of queries): of how many blocks of keys ``mask_mod`` decides.
            kv_indices: integers (batch, heads, blocks of queries, blocks of keys); the first so many are these blocks.
            full_kv_num_blocks, full_kv_indices: the same of blocks that are seen as a whole.
            BLOCK_SIZE: rows and columns of a block.
            mask_mod: as for :func:`create_block_mask`; without, blocks are seen as a whole.
            seq_lengths: numbers of queries and keys; without, the blocks are complete.

        Example::

            >>> one = oneflow.ones(1, 1, 2, dtype=oneflow.int32)
            >>> first = oneflow.tensor([[[[0, 1], [1, 0]]]])
            >>> BlockMask.from_kv_blocks(one, first, BLOCK_SIZE=1).mask[0, 0]
            tensor([[ True, False],
                    [False,  True]])
        """
        rows, columns = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        n_q, n_kv = kv_indices.shape[-2:]
        length = (n_q * rows, n_kv * columns) if seq_lengths is None else seq_lengths

        def wide(n_blocks: Tensor, indices: Tensor) -> Tensor:
            given = oneflow.arange(n_kv, device=indices.device) < n_blocks[..., None]
            # Entries after the given ones may hold anything; they go to an extra column, which is cut off.
            ordered = oneflow.where(given, indices.long(), n_kv)
            blocks = given.new_zeros((*given.shape[:-1], n_kv + 1)).scatter(-1, ordered, given)[..., :n_kv]
            whole = blocks.repeat_interleave(rows, -2).repeat_interleave(columns, -1)
            return whole[..., : length[0], : length[1]]

        mask = wide(kv_num_blocks, kv_indices)
        if mask_mod is not None:
            mask = mask & create_mask(mask_mod, mask.shape[0], mask.shape[1], *length, device=mask.device)
        if full_kv_num_blocks is not None and full_kv_indices is not None:
            mask = mask | wide(full_kv_num_blocks, full_kv_indices)
        return cls(mask, noop_mask if mask_mod is None else mask_mod, (rows, columns))

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch, heads, queries, keys."""
        return tuple(self.mask.shape)

    def numel(self) -> int:
        """Number of pairs of a query and a key."""
        return self.mask.numel()

    def sparsity(self) -> float:
        """The share of blocks that no query sees, in percent."""
        return 100.0 * (1.0 - self.to_dense().float().mean().item())

    def to_dense(self) -> Tensor:
        """1 for each block of the mask in which a query sees a key: int32 ``(batch, heads, blocks, blocks)``."""
        rows, columns = self.BLOCK_SIZE
        batch, heads, q, kv = self.mask.shape
        padded = oneflow.nn.functional.pad(self.mask.to(oneflow.int32), (0, -kv % columns, 0, -q % rows))
        blocks = padded.view(batch, heads, -1, rows, padded.shape[-1] // columns, columns)
        return blocks.amax(dim=(3, 5))

    def to(self, device: Any) -> BlockMask:
        """The mask on another device."""
        return BlockMask(self.mask.to(device), self.mask_mod, self.BLOCK_SIZE)

    def __getitem__(self, index: Any) -> BlockMask:
        return BlockMask(self.mask[index], self.mask_mod, self.BLOCK_SIZE)

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    **_: Any,
) -> BlockMask:
    """Evaluate ``mask_mod`` for all positions.

    Args:
        mask_mod: takes the batch, the head, the query and the key as indices; true where the query sees the key.
        B: batch size; None where the mask is the same for all.
        H: number of heads; None where it is the same for all.
        Q_LEN: number of queries.
        KV_LEN: number of keys.
        device: of the mask.
        BLOCK_SIZE: what :meth:`BlockMask.to_dense` groups by.

    Example::

        >>> from oneflow.nn.attention.flex_attention import create_block_mask
        >>> create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 2, 2).mask[0, 0]
        tensor([[ True, False],
                [ True,  True]])
    """
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    return BlockMask(create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), mask_mod, (size[0], size[1]))


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
    **_: Any,
) -> Any:
    """Attention with scores changed by ``score_mod`` and masked by ``block_mask``.

    Args:
        query: ``(batch, heads, queries, features)``.
        key: ``(batch, heads, keys, features)``; with ``enable_gqa`` fewer heads, each for several of the query.
        value: ``(batch, heads, keys, features of the output)``.
        score_mod: takes the scores and the indices of batch, head, query and key; returns the scores to use.
        block_mask: from :func:`create_block_mask`. A query that sees no key gets zeros.
        scale: what scores are multiplied by first; 1 / sqrt(features) if left out.
        enable_gqa: see ``key``.
        return_lse: also return the logarithm of the sum of the scores' exponentials, ``(batch, heads, queries)``.
        kernel_options: accepted; there is one way to compute it.
        return_aux: also return an :class:`AuxOutput` with what it selects.

    Raises:
        ValueError: the numbers of heads do not fit.

    Example::

        >>> x = oneflow.ones(1, 1, 2, 4)
        >>> flex_attention(x, x, x, score_mod=lambda s, b, h, q, kv: s - (q - kv).abs()).shape
        oneflow.Size([1, 1, 2, 4])
    """
    heads, kv_heads = query.shape[1], key.shape[1]
    if heads != kv_heads:
        if not enable_gqa or heads % kv_heads:
            raise ValueError(
                f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={kv_heads}. "
                "Try setting enable_gqa=True for GQA."
            )
        key, value = (x.repeat_interleave(heads // kv_heads, dim=1) for x in (key, value))
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if score_mod is not None:
        scores = score_mod(scores, *_positions(tuple(scores.shape), query.device))
    if block_mask is None:
        weights = scores.softmax(-1)
    else:
        mask = block_mask.mask[..., : scores.shape[-2], : scores.shape[-1]]
        scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(-1).masked_fill(~mask.any(-1, keepdim=True), 0.0)
    output = weights.to(value.dtype) @ value
    if return_aux is not None:
        lse = scores.logsumexp(-1) if return_aux.lse else None
        return output, AuxOutput(lse, scores.amax(-1) if return_aux.max_scores else None)
    return (output, scores.logsumexp(-1)) if return_lse else output
