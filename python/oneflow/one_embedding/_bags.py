"""``EmbeddingBag`` over a store: sums and means of bags in one pass, without the rows in between."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._oneflow import _EmbeddingBags, _is_tracing
from oneflow.nn import functional as F
from oneflow.one_embedding._ahead import Prepared, prepared
from oneflow.one_embedding._modules import Embedding
from oneflow.one_embedding._options import Options, make_normal_initializer, make_table_options


class EmbeddingBag(Embedding):
    """``nn.EmbeddingBag`` over a store: any id has a row, and bags of rows are added up as they are looked up.

    Args:
        name: of the embedding.
        embedding_dim: weights a row.
        store_options: as :class:`MultiTableEmbedding`.
        mode: ``"sum"``, ``"mean"`` or ``"max"``. A mean does not count padding.
        default_initializer: of the rows; normal with a deviation of 0.05 if None.
        padding_idx: an id that takes no part.
        include_last_offset: the last offset is the end of the last bag.
        dtype, key_type, seed, payload, average_gradients, admission: as :class:`MultiTableEmbedding` and
            :func:`make_table_options`.

    Raises:
        ValueError: there is no such mode.

    Example::

        >>> import tempfile
        >>> from oneflow import one_embedding
        >>> bags = one_embedding.EmbeddingBag(
        ...     "words", 2, one_embedding.make_cached_ssd_store_options(16, tempfile.mkdtemp()),
        ...     default_initializer=one_embedding.make_constant_initializer(1),
        ... )
        >>> bags(oneflow.tensor([5, 9, 5]), oneflow.tensor([0, 2])).detach()
        tensor([[2., 2.],
                [1., 1.]])
    """

    def __init__(
        self,
        name: str,
        embedding_dim: int,
        store_options: Options,
        mode: str = "sum",
        default_initializer: Options | None = None,
        padding_idx: int | None = None,
        include_last_offset: bool = False,
        dtype: oneflow.dtype = oneflow.float32,
        key_type: oneflow.dtype = oneflow.int64,
        seed: int = 0,
        *,
        admission: Options | None = None,
        **options: Any,
    ) -> None:
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f"EmbeddingBag: mode is sum, mean or max, got {mode!r}")
        table = make_table_options(default_initializer or make_normal_initializer(0.0, 0.05), admission)
        super().__init__(
            name, embedding_dim, dtype, key_type, [table], store_options, None, padding_idx, seed, **options
        )
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Pool the rows of each bag.

        Args:
            input: ids of ``key_type``: (bags, n), or (N) with the starts of the bags in ``offsets``.
            offsets: (bags), or (bags + 1) with ``include_last_offset``.
            per_sample_weights: factors of the rows, of the shape of ``input``; with ``"sum"`` only.

        Returns:
            (bags, embedding_dim); a bag without ids is zeros.

        Raises:
            ValueError: shapes do not fit, or offsets do not start at 0 and rise to at most the number of ids.
            NotImplementedError: factors with another mode than ``"sum"``, or that need gradients of their own.
        """
        n_bags, factors = self._checked(input, offsets, per_sample_weights)
        by_rows = self.mode == "max" or (factors is not None and factors.requires_grad)
        if _is_tracing():
            if by_rows or self.n_ranks > 1:
                raise NotImplementedError(
                    "EmbeddingBag: a graph has sums and means of bags, on one rank, with factors that need no gradients"
                )
            return self._traced((input, offsets, factors), [n_bags, self.embedding_dim])
        if by_rows or self.n_ranks > 1:
            return self._by_rows(input.reshape(-1), self._bag_sizes(input, offsets), factors)
        given = (input, offsets, per_sample_weights)
        return self._looked_up(self._ahead.take(given) or self._lookup(input, offsets, factors))

    def prefetch(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> None:
        """As :meth:`MultiTableEmbedding.prefetch`, with what the module takes.

        With several ranks, with ``"max"`` and for factors that need gradients there is no prefetch: this does nothing.
        """
        _, factors = self._checked(input, offsets, per_sample_weights)
        if self.mode == "max" or self.n_ranks > 1 or (factors is not None and factors.requires_grad):
            return
        given = (input, offsets, per_sample_weights)
        self._ahead.start(given, lambda: self._brought(self._lookup(input, offsets, factors)))

    def _checked(self, ids: Tensor, offsets: Tensor | None, factors: Tensor | None) -> tuple[int, Tensor | None]:
        """The number of bags, and the factors."""
        if factors is not None:
            if self.mode != "sum":
                raise NotImplementedError(f"EmbeddingBag: per_sample_weights go with mode 'sum', got {self.mode!r}")
            if factors.shape != ids.shape:
                raise ValueError(
                    f"EmbeddingBag: per_sample_weights {tuple(factors.shape)} must have the shape of the ids "
                    f"{tuple(ids.shape)}"
                )
            factors = factors.to(oneflow.float32)
        if ids.dim() == 2 and offsets is None:
            return ids.shape[0], factors
        if ids.dim() != 1 or offsets is None or offsets.dim() != 1 or (self.include_last_offset and not len(offsets)):
            raise ValueError(
                "EmbeddingBag: expected ids (bags, n), or ids (N) and offsets (bags), got ids "
                f"{tuple(ids.shape)} and offsets {None if offsets is None else tuple(offsets.shape)}"
            )
        return len(offsets) - int(self.include_last_offset), factors

    def _lookup(self, *tensors: Any) -> Prepared:
        ids, offsets, factors = tensors
        batch = self._batch(ids.reshape(-1), None)
        if offsets is not None:
            offsets = offsets.to(oneflow.int64).contiguous()
        flat = None if factors is None else factors.reshape(-1).contiguous()
        size = ids.shape[1] if ids.dim() == 2 else 0
        bags = _EmbeddingBags(batch, offsets, self.include_last_offset, size, flat, self.mode == "mean")
        n_bags = ids.shape[0] if offsets is None else len(bags)
        if n_bags != len(bags):
            bags = _EmbeddingBags(batch, oneflow.zeros(n_bags, dtype=oneflow.int64), False, 0, flat, False)
        return Prepared(batch, [n_bags, self.embedding_dim], bags, None)

    def _bag_sizes(self, ids: Tensor, offsets: Tensor | None) -> Tensor:
        """How many ids each bag has."""
        if offsets is None:
            return oneflow.full((ids.shape[0],), ids.shape[1], dtype=oneflow.int64)
        ends = offsets.to(oneflow.int64)
        if not self.include_last_offset:
            ends = oneflow.cat([ends, oneflow.tensor([len(ids)])])
        sizes = ends[1:] - ends[:-1]
        if (len(ends) > 1 and int(ends[0]) != 0) or bool((sizes < 0).any()) or int(ends[-1]) > len(ids):
            raise ValueError(f"EmbeddingBag: offsets must rise from 0 to at most {len(ids)}, got {offsets.tolist()}")
        if int(ends[-1]) != len(ids):
            raise ValueError(f"EmbeddingBag: the last bag ends at {int(ends[-1])}, and there are {len(ids)} ids")
        return sizes

    def _by_rows(self, flat: Tensor, sizes: Tensor, factors: Tensor | None) -> Tensor:
        """The same by the dense op, over the rows of this batch."""
        of = prepared(self, self._batch(flat, None), [len(flat), self.embedding_dim], None)
        rows = self._looked_up(of)
        order = oneflow.arange(len(flat))
        if self.padding_idx is not None:
            # Padding becomes one row behind the others, which the op leaves out.
            rows = oneflow.cat([rows, rows.new_zeros(1, self.embedding_dim)])
            order = oneflow.where(flat == self.padding_idx, len(flat), order)
        offsets = oneflow.cat([oneflow.zeros(1, dtype=oneflow.int64), sizes.cumsum(0)])
        return F.embedding_bag(
            order,
            rows,
            offsets,
            mode=self.mode,
            per_sample_weights=None if factors is None else factors.reshape(-1).to(rows.dtype),
            include_last_offset=True,
            padding_idx=None if self.padding_idx is None else len(flat),
        )
