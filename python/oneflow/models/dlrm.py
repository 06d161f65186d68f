"""DLRM: dense numbers and categories, embedded and multiplied with each other (Naumov et al., "Deep Learning
Recommendation Model", 2019).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import oneflow as torch
from oneflow import Tensor, nn
from oneflow.models.pretrained import Config, Pretrained

__all__ = ["DLRM", "DLRMConfig"]


@dataclass
class DLRMConfig(Config):
    """Sizes of a DLRM. The defaults are small; ``criteo-kaggle`` has those of the paper's experiment.

    Args:
        n_dense: numbers a sample.
        rows: rows of each category's table.
        width: of an embedding.
        bottom: hidden widths of the network of the numbers.
        top: hidden widths of the network of the products.

    Example::

        >>> from oneflow.models import DLRMConfig
        >>> len(DLRMConfig.preset("criteo-kaggle").rows)
        26
    """

    n_dense: int = 13
    rows: tuple[int, ...] = (1000,) * 26
    width: int = 16
    bottom: tuple[int, ...] = (512, 256, 64)
    top: tuple[int, ...] = (512, 256)

    presets = {
        "small": {},
        "criteo-kaggle": {
            # Distinct values of the 26 categories in the Criteo Display Advertising Challenge.
            "rows": (
                *(1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194),
                *(27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572),
            ),
        },
        "mlperf-criteo-terabyte": {
            "rows": (
                *(39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10),
                *(2208, 11938, 155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36),
            ),
            "width": 128,
            "bottom": (512, 256),
            "top": (1024, 1024, 512, 256),
        },
    }
    model_type = "oneflow_dlrm"


def _network(*widths: int) -> nn.Sequential:
    """Linear layers, each followed by ReLU."""
    layers: list[nn.Module] = []
    for n_in, n_out in itertools.pairwise(widths):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
        nn.init.normal_(layers[-2].weight, std=(2.0 / (n_in + n_out)) ** 0.5)
        nn.init.normal_(layers[-2].bias, std=n_out**-0.5)
    return nn.Sequential(*layers)


class DLRM(Pretrained):
    """Numbers and categories in, the logit of a click out.

    ``forward(dense, sparse)`` with float ``dense`` (batch, n_dense) and int64 ``sparse`` (batch, tables) or
    (batch, tables, bag), whose embeddings are summed, returns logits (batch,).

    Args:
        config: its sizes.
        embedding: a module from ids (batch, tables) to (batch, tables, width), such as
            ``one_embedding.MultiTableEmbedding``; dense tables if None.

    Example::

        >>> from oneflow.models import DLRM, DLRMConfig
        >>> model = DLRM(DLRMConfig(n_dense=4, rows=(10, 20), width=8, bottom=(16,), top=(16,)))
        >>> model(oneflow.ones(3, 4), oneflow.tensor([[1, 2], [3, 4], [5, 6]])).shape
        oneflow.Size([3])
    """

    config_class = DLRMConfig

    def __init__(self, config: DLRMConfig, embedding: nn.Module | None = None) -> None:
        super().__init__()
        self.config = config
        self.embedding = embedding
        rows_of_tables = config.rows if embedding is None else ()
        self.tables = nn.ModuleList([nn.EmbeddingBag(rows, config.width, mode="sum") for rows in rows_of_tables])
        for rows, table in zip(rows_of_tables, self.tables, strict=True):
            nn.init.uniform_(table.weight, -(rows**-0.5), rows**-0.5)
        self.bottom = _network(config.n_dense, *config.bottom, config.width)
        n = len(config.rows) + 1
        widths = (config.width + n * (n - 1) // 2, *config.top)
        self.top = nn.Sequential(_network(*widths), nn.Linear(widths[-1], 1))
        # Each pair of vectors once.
        pairs = torch.tensor(list(itertools.combinations(range(n), 2)))
        self.register_buffer("pairs", pairs[:, 0] * n + pairs[:, 1], persistent=False)

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        x = self.bottom(dense)
        if self.embedding is not None:
            rows = self.embedding(sparse) if sparse.dim() == 2 else self._summed(sparse)
            vectors = torch.cat([x.unsqueeze(1), rows], dim=1)
        else:
            bags = sparse.unsqueeze(2) if sparse.dim() == 2 else sparse
            vectors = torch.stack([x, *(table(bags[:, i]) for i, table in enumerate(self.tables))], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([x, products.index_select(1, self.pairs)], dim=1)).squeeze(1)

    def _summed(self, sparse: Tensor) -> Tensor:
        batch, n_tables, n = sparse.shape
        rows = self.embedding(sparse.transpose(1, 2).reshape(batch * n, n_tables))  # type: ignore[misc]
        return rows.reshape(batch, n, n_tables, -1).sum(1)
