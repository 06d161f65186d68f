"""torchrec's collections of tables: many features in, their embeddings out, by name.

Without ``store_options`` a table is a dense parameter of ``num_embeddings`` rows, under torchrec's names. With them the
tables share one store, whose ids are any integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import oneflow
from oneflow import Tensor, nn
from oneflow.nn import functional as F
from oneflow.one_embedding._jagged import JaggedTensor, KeyedJaggedTensor, KeyedTensor
from oneflow.one_embedding._modules import MultiTableEmbedding
from oneflow.one_embedding._options import Options, make_normal_initializer, make_table_options


@dataclass
class EmbeddingConfig:
    """A table of an :class:`EmbeddingCollection`.

    Args:
        num_embeddings: rows of a dense table; a store has any number.
        embedding_dim: weights a row.
        name: of the table.
        feature_names: keys of the features that look up in it.
        initializer: of a store's rows, by one of the ``make_*_initializer``.
        admission: of a store's new ids.

    Example::

        >>> oneflow.one_embedding.EmbeddingConfig(100, 8, "items", ["item"]).embedding_dim
        8
    """

    num_embeddings: int
    embedding_dim: int
    name: str = ""
    feature_names: list[str] = field(default_factory=list)
    initializer: Options | None = None
    admission: Options | None = None


@dataclass
class EmbeddingBagConfig(EmbeddingConfig):
    """A table of an :class:`EmbeddingBagCollection`: as :class:`EmbeddingConfig`, and how bags are pooled.

    Args:
        pooling: ``"sum"`` or ``"mean"``.

    Example::

        >>> oneflow.one_embedding.EmbeddingBagConfig(100, 8, "items", ["item"], pooling="mean").pooling
        'mean'
    """

    pooling: str = "sum"


def _checked(what: str, tables: Sequence[EmbeddingConfig]) -> None:
    names = [table.name for table in tables]
    if len(set(names)) != len(names) or not all(names):
        raise ValueError(f"{what}: each table has a name of its own, got {names}")
    for table in tables:
        pooling = getattr(table, "pooling", "sum")
        if pooling not in ("sum", "mean"):
            raise ValueError(f"{what}: {table.name} pools by sum or mean, got {pooling!r}")
        if not table.feature_names:
            raise ValueError(f"{what}: {table.name} has no feature_names")


def _store(what: str, tables: Sequence[EmbeddingConfig], store_options: Options) -> MultiTableEmbedding:
    dims = {table.embedding_dim for table in tables}
    if len(dims) != 1:
        raise ValueError(f"{what}: tables of one store have one embedding_dim, got {sorted(dims)}")
    options = [make_table_options(t.initializer or make_normal_initializer(0.0, 0.05), t.admission) for t in tables]
    return MultiTableEmbedding(what, dims.pop(), oneflow.float32, oneflow.int64, options, store_options)


class _Collection(nn.Module):
    """Tables, the features that use each, and rows of the features' values."""

    def __init__(self, tables: Sequence[EmbeddingConfig], store_options: Options | None) -> None:
        super().__init__()
        self._tables = list(tables)
        _checked(type(self).__name__, self._tables)
        self._features = [(key, i) for i, table in enumerate(self._tables) for key in table.feature_names]
        self.store: MultiTableEmbedding | None = None
        if store_options is not None:
            self.store = _store(type(self).__name__, self._tables, store_options)

    def _names(self) -> list[str]:
        """A feature that several tables have is called ``feature@table``."""
        keys = [key for key, _ in self._features]
        return [f"{key}@{self._tables[i].name}" if keys.count(key) > 1 else key for key, i in self._features]

    def _weight(self, i: int) -> Tensor:
        raise NotImplementedError

    def _parts(self, features: KeyedJaggedTensor) -> tuple[list[JaggedTensor], list[Tensor]]:
        """The lists of each feature of each table, and the rows of their values."""
        parts = [features[key] for key, _ in self._features]
        if self.store is None:
            return parts, [
                F.embedding(p.values(), self._weight(i)) for p, (_, i) in zip(parts, self._features, strict=True)
            ]
        ids = oneflow.cat([part.values() for part in parts]).to(oneflow.int64)
        sizes = [len(part.values()) for part in parts]
        numbers = oneflow.tensor([i for _, i in self._features], dtype=oneflow.int64)
        rows = self.store(ids, oneflow.repeat_interleave(numbers, oneflow.tensor(sizes, dtype=oneflow.int64)))
        return parts, list(rows.split(sizes))


class EmbeddingBagCollection(_Collection):
    """Pooled embeddings of the features of a :class:`KeyedJaggedTensor`.

    Args:
        tables: their options. A feature that several tables name is called ``feature@table`` in the output.
        is_weighted: the features come with weights, which multiply their rows.
        store_options: by one of the ``make_*_store_options``: rows live in a store, ``self.store``, and train with
            :class:`Optimizer`. Without, each table is a parameter, ``embedding_bags.NAME.weight``.
        device: of the parameters.

    Raises:
        ValueError: tables without names or features, another pooling, or a store for tables of several sizes.

    Example::

        >>> from oneflow.one_embedding import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
        >>> tables = EmbeddingBagCollection([EmbeddingBagConfig(10, 4, "t", ["user", "items"])])
        >>> features = KeyedJaggedTensor.from_lengths_sync(
        ...     ["user", "items"], oneflow.tensor([7, 9, 1, 2, 3]), oneflow.tensor([1, 1, 2, 1])
        ... )
        >>> tables(features).values().shape
        oneflow.Size([2, 8])
    """

    def __init__(
        self,
        tables: Sequence[EmbeddingBagConfig],
        is_weighted: bool = False,
        device: Any = None,
        store_options: Options | None = None,
    ) -> None:
        super().__init__(tables, store_options)
        self._is_weighted = is_weighted
        if store_options is None:
            bags = {t.name: nn.EmbeddingBag(t.num_embeddings, t.embedding_dim, device=device) for t in tables}
            self.embedding_bags = nn.ModuleDict(bags)

    def is_weighted(self) -> bool:
        """Whether features come with weights."""
        return self._is_weighted

    def embedding_bag_configs(self) -> list[EmbeddingConfig]:
        """The options of the tables."""
        return self._tables

    def _weight(self, i: int) -> Tensor:
        return self.embedding_bags[self._tables[i].name].weight

    def forward(self, features: KeyedJaggedTensor) -> KeyedTensor:
        """Pool the rows of each list: (batch, columns of all features)."""
        parts, rows = self._parts(features)
        pooled = []
        for part, values, (_, i) in zip(parts, rows, self._features, strict=True):
            mode = getattr(self._tables[i], "pooling", "sum")
            factors = part.weights() if self._is_weighted else None
            order = oneflow.arange(len(values), device=values.device)
            if factors is not None and mode == "mean":
                values, factors = values * factors[:, None], None
            pooled.append(
                F.embedding_bag(
                    order,
                    values,
                    part.offsets().to(oneflow.int64),
                    mode=mode,
                    per_sample_weights=None if factors is None else factors.to(values.dtype),
                    include_last_offset=True,
                )
            )
        return KeyedTensor.from_tensor_list(self._names(), pooled)


class EmbeddingCollection(_Collection):
    """Embeddings of each value of the features of a :class:`KeyedJaggedTensor`.

    Args:
        tables: their options.
        device: of the parameters.
        store_options: as :class:`EmbeddingBagCollection`; without, parameters are ``embeddings.NAME.weight``.

    Raises:
        ValueError: as :class:`EmbeddingBagCollection`.

    Example::

        >>> from oneflow.one_embedding import EmbeddingCollection, EmbeddingConfig, KeyedJaggedTensor
        >>> tables = EmbeddingCollection([EmbeddingConfig(10, 4, "t", ["items"])])
        >>> features = KeyedJaggedTensor.from_lengths_sync(["items"], oneflow.tensor([1, 2, 3]), oneflow.tensor([2, 1]))
        >>> [row.shape for row in tables(features)["items"].to_dense()]
        [oneflow.Size([2, 4]), oneflow.Size([1, 4])]
    """

    def __init__(
        self, tables: Sequence[EmbeddingConfig], device: Any = None, store_options: Options | None = None
    ) -> None:
        super().__init__(tables, store_options)
        if store_options is None:
            rows = {t.name: nn.Embedding(t.num_embeddings, t.embedding_dim, device=device) for t in tables}
            self.embeddings = nn.ModuleDict(rows)

    def embedding_configs(self) -> list[EmbeddingConfig]:
        """The options of the tables."""
        return self._tables

    def _weight(self, i: int) -> Tensor:
        return self.embeddings[self._tables[i].name].weight

    def forward(self, features: KeyedJaggedTensor) -> dict[str, JaggedTensor]:
        """Look each value up: for each feature lists of rows."""
        parts, rows = self._parts(features)
        return {
            name: JaggedTensor(values, lengths=part.lengths())
            for name, part, values in zip(self._names(), parts, rows, strict=True)
        }
