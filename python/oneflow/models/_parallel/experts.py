"""Experts over ranks: tokens travel to the ranks that have their experts, and their results back.

Lepikhin et al., "GShard", 2021. Each rank routes its own tokens; over the axis "ep" each has a part of the experts,
over "tp" a part of every expert's hidden units. All-to-alls are uneven, as tokens fall.
"""

from __future__ import annotations

from typing import Any

import oneflow as torch
from oneflow import Tensor, distributed, nn
from oneflow.distributed import _functional_collectives as functional
from oneflow.distributed.tensor import Partial, Placement, Replicate, Shard, _layouts
from oneflow.models._parallel.axes import Axes
from oneflow.models.layers import MoE
from oneflow.models.layers.moe import run_experts

__all__ = ["split_experts"]


def split_experts(model: nn.Module, axes: Axes) -> None:
    """Split the experts of a model whose weights are global.

    Raises:
        ValueError: the ranks do not divide the experts, or their hidden units; tokens of a sequence compete for places.
    """
    for name, module in model.named_modules():
        if not isinstance(module, MoE):
            continue
        for what, size, axis in (("experts", module.n_experts, "ep"), ("hidden units", module.hidden, "tp")):
            if size % axes.size(axis):
                raise ValueError(f"{name}: {size} {what} do not divide by {axis}={axes.size(axis)}")
        if module.capacity_factor is not None and axes.size("cp") > 1:
            raise ValueError(
                f"{name}: with capacity_factor the tokens of a whole sequence compete for places, and cp splits the "
                "sequence; build the model with capacity_factor=None"
            )
        if module.dense and axes.size("ep") > 1:
            raise ValueError(
                f"{name}: dense experts read every token, and ep splits the tokens; build with dense=False"
            )
        for kind, hidden in (("gate", 1), ("up", 1), ("down", 2)):
            weight = getattr(module, kind)
            layout = axes.layout(ep=torch.sbp.split(0), tp=torch.sbp.split(hidden))
            setattr(module, kind, nn.Parameter(weight.detach().to_global(sbp=layout), weight.requires_grad))
        module.routed = _Routed(module, axes)  # type: ignore[method-assign]


class _Routed:
    """``MoE.routed`` of global tokens."""

    def __init__(self, module: MoE, axes: Axes) -> None:
        self.module, self.axes = module, axes

    def __call__(self, x: Tensor) -> Tensor:
        if torch._oneflow._is_tracing() and not self.module.dense:
            raise NotImplementedError(
                "MoE: where tokens go depends on their values, which nn.Graph does not trace; build with dense=True"
            )
        module, axes = self.module, self.axes
        is_split = axes.of(x, "tp") == torch.sbp.split(1)
        if is_split:
            x = axes.changed(x, "tp", torch.sbp.broadcast)
        layout = [torch.sbp.broadcast if s == torch.sbp.partial_sum else s for s in x.sbp]
        x = x.to_global(sbp=layout)
        if axes.size("ep") > 1 and axes.of(x, "ep") == torch.sbp.broadcast and torch.is_grad_enabled():
            raise ValueError("MoE: the batch is not split over ep; make it by ParallelLayout.batch")
        # Every "tp" rank has a term of each result, so also of each gradient.
        terms = [name == "tp" for name in axes.names]
        of_x: list[Placement] = [
            Shard(s.dim) if s.dim is not None else Partial() if term else Replicate()
            for s, term in zip(layout, terms, strict=True)
        ]
        own = _layouts.to_local(x, of_x)
        routing = module.route(own, self._weight(module.router.weight, layout), module.bias.to_local())
        self._measure(routing.scores, module.counts(routing), layout, x.shape.numel() // module.width)
        if module.dense:
            y = module.masked(own, routing, *self._weights(layout))
        else:
            y = module.dispatch(own, routing, lambda rows, sizes: self._run(rows, sizes, layout))
        summed = [torch.sbp.partial_sum if term else s for s, term in zip(layout, terms, strict=True)]
        found = axes.enter(y, summed, list(x.shape))
        return axes.changed(found, "tp", torch.sbp.split(1) if is_split else torch.sbp.broadcast)

    def _weight(self, weight: Tensor, layout: list[Any]) -> Tensor:
        """This rank's part of a weight; its gradient is summed over the ranks that have other tokens."""
        places: list[Placement] = []
        for name, s, w in zip(self.axes.names, layout, weight.sbp, strict=True):
            summed = s.dim is not None or name == "tp"
            places.append(Shard(w.dim) if w.dim is not None else Partial() if summed else Replicate())
        return _layouts.to_local(weight, places)

    def _weights(self, layout: list[Any]) -> tuple[Tensor, Tensor, Tensor]:
        gate, up, down = (self._weight(x, layout) for x in (self.module.gate, self.module.up, self.module.down))
        return gate, up, down

    def _run(self, rows: Tensor, counts: Tensor, layout: list[Any]) -> Tensor:
        """Results of rows in the order of experts, by the ranks that have these."""
        module, n = self.module, self.axes.size("ep")
        weights = self._weights(layout)
        if n == 1:
            return run_experts(rows, counts.tolist(), *weights)
        group, each = self.axes.group("ep"), module.n_experts // n
        coming = torch.empty_like(counts)
        distributed.all_to_all_single(coming, counts, group=group)
        sent, received = (x.view(n, each).sum(1).tolist() for x in (counts, coming))
        got = functional.all_to_all_single(rows, received, sent, group)
        # By ranks and their experts, to experts.
        owners = torch.arange(each, device=rows.device).repeat(n).repeat_interleave(coming)
        order = owners.argsort(stable=True)
        found = run_experts(got[order], coming.view(n, each).sum(0).tolist(), *weights)
        return functional.all_to_all_single(found[order.argsort()], sent, received, group)

    def _measure(self, scores: Tensor, counts: Tensor, layout: list[Any], n_tokens: int) -> None:
        """The load of all ranks, and the loss that keeps it even."""
        module, axes = self.module, self.axes
        split = [name for name, s in zip(axes.names, layout, strict=True) if s.dim is not None]
        terms = [torch.sbp.partial_sum if name in split else torch.sbp.broadcast for name in axes.names]
        load = _layouts.assemble(counts, axes.placement, terms, list(counts.shape)).to_global(sbp=axes.layout())
        module.load = None if torch._oneflow._is_tracing() else load
        if module.balance:
            share = load.to_local().to(scores.dtype) / (n_tokens * module.top_k)
            loss = module.balance * module.n_experts * (share * scores.sum(0)).sum() / n_tokens / axes.size("tp")
            terms = [torch.sbp.partial_sum if name == "tp" else s for name, s in zip(axes.names, terms, strict=True)]
            entered = axes.enter(loss, terms, [])
            module.auxiliary_loss = entered.to_global(sbp=axes.layout())
