"""Flatten."""

from __future__ import annotations

from oneflow import Tensor
from oneflow.nn.modules.module import Module


class Flatten(Module):
    """Merge the dimensions ``start_dim`` to ``end_dim`` into one; the batch dimension stays by default.

    Example::

        >>> nn.Flatten()(oneflow.ones(2, 3, 4)).shape
        oneflow.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
