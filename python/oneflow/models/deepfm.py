"""DeepFM: a linear model, products of pairs of embeddings, and a network over them (Guo et al., "DeepFM", 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import oneflow as torch
from oneflow import Tensor, nn
from oneflow.models.layers.fields import Fields, perceptron
from oneflow.models.pretrained import Config, Pretrained

__all__ = ["DeepFM", "DeepFMConfig"]


@dataclass
class DeepFMConfig(Config):
    """Sizes of a DeepFM.

    Args:
        n_dense: numbers a sample.
        rows: rows of each category's table.
        width: of an embedding. A table has one column more, the linear model's.
        hidden: widths of the network.
        dropout: in the network.

    Example::

        >>> from oneflow.models import DeepFMConfig
        >>> DeepFMConfig.preset("paper").hidden
        (400, 400, 400)
    """

    n_dense: int = 13
    rows: tuple[int, ...] = (1000,) * 26
    width: int = 10
    hidden: tuple[int, ...] = (128, 128)
    dropout: float = 0.0

    presets = {"small": {}, "paper": {"hidden": (400, 400, 400), "dropout": 0.5}}
    model_type = "oneflow_deepfm"


class DeepFM(Pretrained):
    """Numbers and categories in, the logit of a click out.

    ``forward(dense, sparse)`` with float ``dense`` (batch, n_dense) and int64 ``sparse`` (batch, tables) returns logits
    (batch,).

    Args:
        config: its sizes.
        embedding: a module from ids (batch, tables) to (batch, tables, width + 1), such as
            ``one_embedding.MultiTableMultiColumnEmbedding`` of columns ``[width, 1]``; dense tables if None.

    Example::

        >>> from oneflow.models import DeepFM, DeepFMConfig
        >>> model = DeepFM(DeepFMConfig(n_dense=2, rows=(10, 20), width=4, hidden=(8,)))
        >>> model(oneflow.ones(3, 2), oneflow.tensor([[1, 2], [3, 4], [5, 6]])).shape
        oneflow.Size([3])
    """

    config_class = DeepFMConfig

    def __init__(self, config: DeepFMConfig, embedding: nn.Module | None = None) -> None:
        super().__init__()
        self.config = config
        self.embedding = Fields(config.rows, config.width + 1, 0.01) if embedding is None else embedding
        self.linear = nn.Linear(config.n_dense, 1)
        widths = (config.n_dense + len(config.rows) * config.width, *config.hidden)
        self.deep = nn.Sequential(perceptron(*widths, dropout=config.dropout), nn.Linear(widths[-1], 1))

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        rows = self.embedding(sparse)
        vectors, first_order = rows[..., :-1], rows[..., -1]
        # The sum over pairs, as half of the square of the sum less the sum of the squares.
        total = vectors.sum(1)
        pairs = 0.5 * (total * total - (vectors * vectors).sum(1)).sum(1)
        deep = self.deep(torch.cat([dense, vectors.flatten(1)], dim=1)).squeeze(1)
        return self.linear(dense).squeeze(1) + first_order.sum(1) + pairs + deep
