"""The two feed-forward networks of transformers: with one activation, and with a gate."""

from __future__ import annotations

from collections.abc import Callable

from oneflow import Tensor, nn


class MLP(nn.Module):
    """``down(activation(up(x)))``. Input and output: (..., width).

    Example::

        >>> from oneflow.models.layers import MLP
        >>> MLP(8, 32, nn.GELU())(oneflow.ones(2, 3, 8)).shape
        oneflow.Size([2, 3, 8])
    """

    def __init__(
        self, width: int, hidden: int, activation: Callable[[Tensor], Tensor], dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=bias)
        self.activation = activation
        self.down = nn.Linear(hidden, width, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.down(self.activation(self.up(x))))


class GatedMLP(nn.Module):
    """``down(activation(gate(x)) * up(x))``, SwiGLU with SiLU (Shazeer, "GLU Variants Improve Transformer", 2020).

    Example::

        >>> from oneflow.models.layers import GatedMLP
        >>> GatedMLP(8, 16, nn.SiLU())(oneflow.ones(2, 3, 8)).shape
        oneflow.Size([2, 3, 8])
    """

    def __init__(
        self, width: int, hidden: int, activation: Callable[[Tensor], Tensor], dropout: float = 0.0, bias: bool = False
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=bias)
        self.up = nn.Linear(width, hidden, bias=bias)
        self.activation = activation
        self.down = nn.Linear(hidden, width, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.down(self.activation(self.gate(x)) * self.up(x)))
