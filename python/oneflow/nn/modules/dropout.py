"""Dropout."""

from __future__ import annotations

from oneflow import Tensor
from oneflow.nn import functional as F
from oneflow.nn.modules.module import Module


class Dropout(Module):
    """In training, set each element to zero with probability ``p`` and scale the rest by ``1 / (1 - p)``.

    Args:
        p: probability of zero, within [0, 1].
        inplace: write into the input.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
