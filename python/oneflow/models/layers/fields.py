"""Embeddings of the categories of a recommender: a table for each, or one module that has them all."""

from __future__ import annotations

import oneflow as torch
from oneflow import Tensor, nn

__all__ = ["Fields"]


class Fields(nn.Module):
    """A dense table for each field: ids (batch, fields) give (batch, fields, width).

    Args:
        rows: of each field's table.
        width: of a row.
        std: deviation of the initial weights.
    """

    def __init__(self, rows: tuple[int, ...], width: int, std: float = 0.05) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(n, width) for n in rows])
        for table in self.tables:
            nn.init.normal_(table.weight, std=std)

    def forward(self, ids: Tensor) -> Tensor:
        return torch.stack([table(ids[:, i]) for i, table in enumerate(self.tables)], dim=1)


def perceptron(*widths: int, dropout: float = 0.0) -> nn.Sequential:
    """Linear layers, each followed by ReLU and dropout."""
    layers: list[nn.Module] = []
    for i in range(len(widths) - 1):
        layers += [nn.Linear(widths[i], widths[i + 1]), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers)
