"""Wide & Deep: a linear model over crossed categories plus a network over embedded ones (Cheng et al., "Wide & Deep
Learning for Recommender Systems", 2016).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import oneflow as torch
from oneflow import Tensor, nn
from oneflow.models.pretrained import Config, Pretrained

__all__ = ["WideDeep", "WideDeepConfig"]


@dataclass
class WideDeepConfig(Config):
    """Sizes of a Wide & Deep model.

    Args:
        n_dense: numbers a sample.
        wide_rows: rows of the linear model's table, which all wide categories share.
        rows: rows of each deep category's table.
        width: of an embedding.
        hidden: widths of the network.

    Example::

        >>> from oneflow.models import WideDeepConfig
        >>> WideDeepConfig.preset("small").hidden
        (256, 128)
    """

    n_dense: int = 13
    wide_rows: int = 100_000
    rows: tuple[int, ...] = (1000,) * 26
    width: int = 16
    hidden: tuple[int, ...] = (1024, 512, 256)
    dropout: float = 0.0

    presets = {
        "small": {"hidden": (256, 128)},
        "paper": {"width": 32},
        # Seven layers of 1024 over 26 categories hashed into one range, as OneFlow's benchmarks have it.
        "criteo": {"wide_rows": 2_322_444, "rows": (89_325,) * 26, "hidden": (1024,) * 7, "dropout": 0.5},
    }
    model_type = "oneflow_wide_deep"


class WideDeep(Pretrained):
    """Numbers and categories in, the logit of a click out.

    ``forward(dense, wide, deep)`` with float ``dense`` (batch, n_dense), int64 ``wide`` (batch, any) of rows in the one
    wide table and int64 ``deep`` (batch, tables) returns logits (batch,).

    Args:
        config: its sizes.
        wide: a module from ids (batch, any) to (batch, 1), such as ``one_embedding.EmbeddingBag`` of one weight; a
            dense table if None.
        embedding: a module from ids (batch, tables) to (batch, tables, width), such as
            ``one_embedding.MultiTableEmbedding``; dense tables if None.

    Example::

        >>> from oneflow.models import WideDeep, WideDeepConfig
        >>> model = WideDeep(WideDeepConfig(n_dense=2, wide_rows=100, rows=(10, 20), width=4, hidden=(8,)))
        >>> model(oneflow.ones(1, 2), oneflow.tensor([[7, 9, 50]]), oneflow.tensor([[1, 2]])).shape
        oneflow.Size([1])
    """

    config_class = WideDeepConfig

    def __init__(
        self, config: WideDeepConfig, wide: nn.Module | None = None, embedding: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.config = config
        self.wide = nn.EmbeddingBag(config.wide_rows, 1, mode="sum") if wide is None else wide
        self.embedding = embedding
        rows_of_tables = config.rows if embedding is None else ()
        self.tables = nn.ModuleList([nn.Embedding(rows, config.width) for rows in rows_of_tables])
        layers: list[nn.Module] = []
        widths = (config.n_dense + len(config.rows) * config.width, *config.hidden)
        for n_in, n_out in itertools.pairwise(widths):
            layers += [nn.Linear(n_in, n_out), nn.ReLU(), nn.Dropout(config.dropout)]
        self.deep = nn.Sequential(*layers, nn.Linear(widths[-1], 1))
        if wide is None:
            nn.init.zeros_(self.wide.weight)
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.05)

    def forward(self, dense: Tensor, wide: Tensor, deep: Tensor) -> Tensor:
        if self.embedding is None:
            embedded = [table(deep[:, i]) for i, table in enumerate(self.tables)]
        else:
            embedded = [self.embedding(deep).flatten(1)]
        logits = self.wide(wide) + self.deep(torch.cat([dense, *embedded], dim=1))
        return logits.squeeze(1)
