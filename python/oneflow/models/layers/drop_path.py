"""Stochastic depth: whole branches of a residual network left out at random."""

from __future__ import annotations

import oneflow as torch
from oneflow import Tensor, nn


class DropPath(nn.Module):
    """Set each sample of ``x`` (batch, ...) to zero with probability ``p`` in training, and scale the others up.

    Huang et al., "Deep Networks with Stochastic Depth", 2016.

    Example::

        >>> from oneflow.models.layers import DropPath
        >>> DropPath(0.5).eval()(oneflow.ones(2))
        tensor([1., 1.])
    """

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        kept = torch.rand(x.shape[0], *(1,) * (x.dim() - 1), device=x.device) >= self.p
        return x * kept.to(x.dtype) / (1.0 - self.p)

    def extra_repr(self) -> str:
        return f"p={self.p}"
