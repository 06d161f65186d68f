"""Distances."""

from __future__ import annotations

from oneflow import Tensor
from oneflow.nn import functional as F
from oneflow.nn.modules.module import Module


class PairwiseDistance(Module):
    """The p-norm of ``x1 - x2 + eps`` along the last dimension.

    Example::

        >>> nn.PairwiseDistance()(oneflow.tensor([[0.0, 0.0]]), oneflow.tensor([[3.0, 4.0]]))
        tensor([5.0000])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """``x1 . x2 / (|x1| |x2|)`` along ``dim``, each length at least ``eps``.

    Example::

        >>> nn.CosineSimilarity(dim=1)(oneflow.tensor([[1.0, 0.0]]), oneflow.tensor([[1.0, 1.0]]))
        tensor([0.7071])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
