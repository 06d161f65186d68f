"""Two towers: users and items as vectors of one space, whose products are scores (Yi et al., "Sampling-Bias-Corrected
Neural Modeling", 2019).
"""

from __future__ import annotations

from dataclasses import dataclass

import oneflow as torch
from oneflow import Tensor, nn
from oneflow.models.layers.fields import Fields, perceptron
from oneflow.models.pretrained import Config, Pretrained

__all__ = ["TwoTower", "TwoTowerConfig"]


@dataclass
class TwoTowerConfig(Config):
    """Sizes of a two-tower model.

    Args:
        user_rows: rows of the table of each category of a user.
        item_rows: the same for items.
        n_user_dense: numbers a user.
        n_item_dense: numbers an item.
        width: of an embedding.
        hidden: widths of both networks.
        output: width of the common space.

    Example::

        >>> from oneflow.models import TwoTowerConfig
        >>> TwoTowerConfig().output
        32
    """

    user_rows: tuple[int, ...] = (1000,)
    item_rows: tuple[int, ...] = (1000,)
    n_user_dense: int = 0
    n_item_dense: int = 0
    width: int = 32
    hidden: tuple[int, ...] = (128, 64)
    output: int = 32

    presets = {"small": {}}
    model_type = "oneflow_two_tower"


class _Tower(nn.Module):
    def __init__(self, n_fields: int, n_dense: int, config: TwoTowerConfig) -> None:
        super().__init__()
        widths = (n_fields * config.width + n_dense, *config.hidden)
        self.network = nn.Sequential(perceptron(*widths), nn.Linear(widths[-1], config.output))

    def forward(self, rows: Tensor, dense: Tensor | None) -> Tensor:
        x = rows.flatten(1) if dense is None else torch.cat([dense, rows.flatten(1)], dim=1)
        return nn.functional.normalize(self.network(x), dim=1)


class TwoTower(Pretrained):
    """Users and items in, the logit of a click for each pair out.

    ``forward(users, items, user_dense=None, item_dense=None)`` with int64 ``users`` (batch, user tables) and ``items``
    (batch, item tables) returns logits (batch,). ``towers`` of the same arguments returns vectors of length one,
    (batch, output) each, whose products rank items for users.

    Args:
        config: its sizes.
        embedding: a module from ids (batch, user and item tables) to (batch, tables, width), such as
            ``one_embedding.MultiTableEmbedding``: the tables of users come first. Dense tables if None.

    Example::

        >>> from oneflow.models import TwoTower, TwoTowerConfig
        >>> model = TwoTower(TwoTowerConfig(user_rows=(10,), item_rows=(20, 5), width=4, hidden=(8,), output=3))
        >>> model(oneflow.tensor([[1], [2]]), oneflow.tensor([[7, 1], [9, 2]])).shape
        oneflow.Size([2])
    """

    config_class = TwoTowerConfig

    def __init__(self, config: TwoTowerConfig, embedding: nn.Module | None = None) -> None:
        super().__init__()
        self.config = config
        self.n_user_fields, n_item_fields = len(config.user_rows), len(config.item_rows)
        rows = (*config.user_rows, *config.item_rows)
        self.embedding = Fields(rows, config.width) if embedding is None else embedding
        self.user_tower = _Tower(self.n_user_fields, config.n_user_dense, config)
        self.item_tower = _Tower(n_item_fields, config.n_item_dense, config)
        # Products of vectors of length one lie in [-1, 1]: the logits need a scale and a shift.
        self.scale = nn.Parameter(torch.full((1,), 5.0))
        self.bias = nn.Parameter(torch.zeros(1))

    def towers(
        self, users: Tensor, items: Tensor, user_dense: Tensor | None = None, item_dense: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The vectors of users and items, (batch, output) each."""
        rows = self.embedding(torch.cat([users, items], dim=1))
        n = self.n_user_fields
        return self.user_tower(rows[:, :n], user_dense), self.item_tower(rows[:, n:], item_dense)

    def forward(
        self, users: Tensor, items: Tensor, user_dense: Tensor | None = None, item_dense: Tensor | None = None
    ) -> Tensor:
        user, item = self.towers(users, items, user_dense, item_dense)
        return (user * item).sum(1) * self.scale + self.bias
