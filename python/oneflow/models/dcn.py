"""DCN v2: layers that multiply features with each other, and a network next to or behind them (Wang et al., "DCN V2",
2021).
"""

from __future__ import annotations

from dataclasses import dataclass

import oneflow as torch
from oneflow import Tensor, nn
from oneflow.models.layers.fields import Fields, perceptron
from oneflow.models.pretrained import Config, Pretrained

__all__ = ["DCN", "DCNConfig"]


@dataclass
class DCNConfig(Config):
    """Sizes of a DCN v2.

    Args:
        n_dense: numbers a sample.
        rows: rows of each category's table.
        width: of an embedding.
        n_cross: cross layers.
        rank: inner width of a cross layer's matrix, as a product of two; 0 is one full matrix.
        hidden: widths of the network.
        stacked: the network reads the cross layers' result; else it stands next to them.
        dropout: in the network.

    Example::

        >>> from oneflow.models import DCNConfig
        >>> DCNConfig.preset("mlperf").n_cross
        3
    """

    n_dense: int = 13
    rows: tuple[int, ...] = (1000,) * 26
    width: int = 16
    n_cross: int = 2
    rank: int = 0
    hidden: tuple[int, ...] = (256, 128)
    stacked: bool = True
    dropout: float = 0.0

    presets = {"small": {}, "mlperf": {"width": 128, "n_cross": 3, "rank": 512, "hidden": (1024, 1024, 512, 256)}}
    model_type = "oneflow_dcn"


class _Cross(nn.Module):
    """``x0 * (W x + b) + x``, where W may be a product of two thin matrices."""

    def __init__(self, n: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Linear(n, rank, bias=False) if rank else None
        self.up = nn.Linear(rank or n, n)

    def forward(self, x0: Tensor, x: Tensor) -> Tensor:
        return x0 * self.up(x if self.down is None else self.down(x)) + x


class DCN(Pretrained):
    """Numbers and categories in, the logit of a click out.

    ``forward(dense, sparse)`` with float ``dense`` (batch, n_dense) and int64 ``sparse`` (batch, tables) returns logits
    (batch,).

    Args:
        config: its sizes.
        embedding: a module from ids (batch, tables) to (batch, tables, width), such as
            ``one_embedding.MultiTableEmbedding``; dense tables if None.

    Example::

        >>> from oneflow.models import DCN, DCNConfig
        >>> model = DCN(DCNConfig(n_dense=2, rows=(10, 20), width=4, rank=3, hidden=(8,)))
        >>> model(oneflow.ones(3, 2), oneflow.tensor([[1, 2], [3, 4], [5, 6]])).shape
        oneflow.Size([3])
    """

    config_class = DCNConfig

    def __init__(self, config: DCNConfig, embedding: nn.Module | None = None) -> None:
        super().__init__()
        self.config = config
        self.embedding = Fields(config.rows, config.width) if embedding is None else embedding
        n = config.n_dense + len(config.rows) * config.width
        self.cross = nn.ModuleList([_Cross(n, config.rank) for _ in range(config.n_cross)])
        self.deep = perceptron(n, *config.hidden, dropout=config.dropout)
        width = config.hidden[-1] if config.hidden else n
        self.head = nn.Linear(width if config.stacked else width + n, 1)

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        x0 = torch.cat([dense, self.embedding(sparse).flatten(1)], dim=1)
        x = x0
        for layer in self.cross:
            x = layer(x0, x)
        out = self.deep(x) if self.config.stacked else torch.cat([x, self.deep(x0)], dim=1)
        return self.head(out).squeeze(1)
