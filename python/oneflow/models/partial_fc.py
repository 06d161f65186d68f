"""A class-split softmax with a sample of the classes, for face recognition (An et al., "Partial FC: Training 10 Million
Identities on a Single Machine", 2021; "Killing Two Birds with One Stone", 2022).
"""

from __future__ import annotations

from typing import Any

import oneflow as torch
import oneflow.nn.functional as F
from oneflow import Tensor, nn

__all__ = ["PartialFC"]

# Classes that one generator draws: initial weights do not depend on the number of ranks.
_BLOCK = 1 << 16


class PartialFC(nn.Module):
    """Cross entropy over very many classes, of which each rank of a group holds its own part.

    ``forward(embeddings, labels)`` takes this rank's (batch, width) and int64 (batch,), as many on each rank, and
    returns the mean loss over the batches of all ranks, 0-dim, the same on each. Embeddings are gathered; logits are
    cosines times ``scale``, with a margin at the label, and never leave their rank. With global tensors, split along
    the batch, the loss is global.

    Args:
        width: of the embeddings.
        n_classes: of all ranks together.
        sample_rate: the share of its classes that a rank computes in training: those of the batch, and others drawn at
            random. 1 computes all.
        scale: of the cosines.
        margin: a module that changes cosines (N, classes) at labels (N,); ``nn.CombinedMarginLoss(1.0, 0.5, 0.0)``, the
            margin of ArcFace, by default.
        averaged: gradients of the embeddings' network are averaged over the ranks afterwards, as
            ``DistributedDataParallel`` does; those of the embeddings are then multiplied by the number of ranks.
        sparse: the weight has sparse gradients, with the rows of computed classes alone; for optimizers that take them.
        group: the process group; all ranks by default.

    Attributes:
        weight: (classes of this rank, width).
        first: the number of this rank's first class.

    Raises:
        ValueError: a rate outside (0, 1], fewer classes than ranks, inputs that do not fit.
        IndexError: a label that is no class.

    Example::

        >>> from oneflow.models import PartialFC
        >>> def rank():
        ...     head = PartialFC(width=8, n_classes=100, sample_rate=0.5)
        ...     return head.weight.shape, head(oneflow.ones(2, 8), oneflow.tensor([3, 70])).shape
        >>> oneflow.testing.run_ranks(2, rank)[0]
        (oneflow.Size([50, 8]), oneflow.Size([]))
    """

    def __init__(
        self,
        width: int,
        n_classes: int,
        sample_rate: float = 1.0,
        scale: float = 64.0,
        margin: nn.Module | None = None,
        averaged: bool = False,
        sparse: bool = False,
        group: Any = None,
    ) -> None:
        super().__init__()
        self.n_ranks, self.rank = torch.distributed.get_world_size(group), torch.distributed.get_rank(group)
        if not 0.0 < sample_rate <= 1.0:
            raise ValueError(f"PartialFC: sample_rate must be above 0 and at most 1, got {sample_rate}")
        if n_classes < self.n_ranks:
            raise ValueError(f"PartialFC: {n_classes} classes for {self.n_ranks} ranks; each needs one")
        self.width, self.n_classes, self.sample_rate = width, n_classes, sample_rate
        self.scale, self.averaged, self.sparse, self.group = scale, averaged, sparse, group
        self.margin = nn.CombinedMarginLoss(1.0, 0.5, 0.0) if margin is None else margin
        each, more = divmod(n_classes, self.n_ranks)
        self.first = each * self.rank + min(self.rank, more)
        self.weight = nn.Parameter(self._drawn(each + (self.rank < more)))

    def _drawn(self, n: int) -> Tensor:
        seed = int(torch.randint(0, 1 << 31, ()))
        weight = torch.empty(n, self.width)
        for block in range(self.first // _BLOCK, (self.first + n - 1) // _BLOCK + 1):
            generator = torch.Generator().manual_seed(seed + block)
            rows = torch.empty(_BLOCK, self.width).normal_(0.0, 0.01, generator=generator)
            start = block * _BLOCK
            low, high = max(start, self.first), min(start + _BLOCK, self.first + n)
            weight[low - self.first : high - self.first] = rows[low - start : high - start]
        return weight

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        if embeddings.dim() != 2 or embeddings.shape[1] != self.width or labels.shape != embeddings.shape[:1]:
            raise ValueError(
                f"PartialFC: embeddings {tuple(embeddings.shape)} and labels {tuple(labels.shape)} do not fit: "
                f"(batch, {self.width}) and (batch,) are needed"
            )
        if embeddings.is_global:
            return self._of_global(embeddings, labels)
        return self._loss(embeddings, labels)

    def _of_global(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        from oneflow.distributed.tensor import _layouts

        whole, rows = [torch.sbp.broadcast], [torch.sbp.split(0)]
        if len(embeddings.sbp) != 1:
            raise ValueError(f"PartialFC: global embeddings lie over one axis of ranks, got {embeddings.sbp}")
        own = _layouts.to_local(embeddings.to_global(sbp=rows))
        loss = self._loss(own, labels.to_global(sbp=rows).to_local())
        return _layouts.enter(loss, embeddings.placement, whole, [])

    def _loss(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        from oneflow.distributed import _functional_collectives as functional
        from oneflow.distributed.tensor.parallel._loss import _Parts

        if self.averaged and embeddings.requires_grad:
            embeddings = embeddings.view_as(embeddings)
            embeddings.register_hook(lambda grad: grad * self.n_ranks)
        rows = functional.all_gather_tensor(embeddings, 0, self.group)
        places = labels.new_empty(self.n_ranks * len(labels))
        torch.distributed.all_gather_into_tensor(places, labels.contiguous(), self.group)
        wrong = (places < 0) | (places >= self.n_classes)
        if bool(wrong.any()):
            raise IndexError(f"PartialFC: label {int(places[wrong][0])} is none of {self.n_classes} classes")
        own = places - self.first
        own = torch.where((own >= 0) & (own < len(self.weight)), own, -1)
        weight: Tensor = self.weight
        if self.training and self.sample_rate < 1.0:
            chosen = self._sample(own)
            weight = F.embedding(chosen, weight, sparse=self.sparse)
            own = torch.where(own >= 0, torch.searchsorted(chosen, own), -1)
        elif self.sparse and self.training:
            weight = F.embedding(torch.arange(len(weight), device=weight.device), weight, sparse=True)
        cosines = F.linear(F.normalize(rows), F.normalize(weight)).clamp(-1.0, 1.0)
        logits = self.margin(cosines, own) * self.scale
        # A class of another rank is one behind the last here.
        n = logits.shape[1]
        targets = torch.where(own >= 0, own, n)
        return _Parts.apply(logits, targets, None, 0, n + 1, -100, "mean", self.group)

    @torch.no_grad()
    def _sample(self, own: Tensor) -> Tensor:
        """The classes to compute, ascending: those of the batch, and others up to the share."""
        needed = own[own >= 0].unique()
        n = max(len(needed), round(self.sample_rate * len(self.weight)), 1)
        order = torch.rand(len(self.weight), device=own.device)
        order[needed] = 2.0
        return order.topk(n).indices.sort().values

    def extra_repr(self) -> str:
        last = self.first + len(self.weight) - 1
        return f"width={self.width}, classes {self.first} to {last} of {self.n_classes}, sample_rate={self.sample_rate}"
