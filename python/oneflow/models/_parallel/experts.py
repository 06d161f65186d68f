"""Experts over ranks: tokens travel to the ranks that have their experts, and their results back.

Lepikhin et al., "GShard", 2021. Each rank routes its own tokens; over the axis "ep" each has a part of the experts,
over "tp" a part of every expert's hidden units. All-to-alls are uneven, as tokens fall; in ``nn.Graph``, where no shape
can depend on values, experts have places for tokens.
"""

from __future__ import annotations

from typing import Any

import oneflow as torch
from oneflow import Tensor, distributed, nn
from oneflow.distributed import _functional_collectives as functional
from oneflow.distributed.tensor import Partial, Placement, Replicate, Shard, _layouts
from oneflow.models._parallel.axes import Axes
from oneflow.models._parallel.parts import Result, on_parts
from oneflow.models.layers import MoE
from oneflow.models.layers.moe import run_experts, run_places

__all__ = ["check_experts", "split_experts"]


def check_experts(model: nn.Module, axes: Axes) -> None:
    """Check that ranks can share the experts of a model.

    Raises:
        ValueError: the ranks do not divide the experts, or their hidden units; tokens of a sequence compete for places;
            there are no experts.
    """
    if axes.size("ep") > 1 and not any(isinstance(module, MoE) for module in model.modules()):
        raise ValueError(f"{type(model).__name__} has no mixture of experts to split over ep={axes.size('ep')} ranks")
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


def split_experts(model: nn.Module, axes: Axes, home: torch.placement | None = None) -> None:
    """Split the experts of a model, or of a pipeline stage, whose weights are global.

    Args:
        home: the ranks that add the routers' losses to that of the model: those of the last stage.
    """
    for module in model.modules():
        if not isinstance(module, MoE):
            continue
        for kind, hidden in (("gate", 1), ("up", 1), ("down", 2)):
            weight = getattr(module, kind)
            layout = axes.layout(ep=torch.sbp.split(0), tp=torch.sbp.split(hidden))
            setattr(module, kind, nn.Parameter(weight.detach().to_global(sbp=layout), weight.requires_grad))
        module.routed = _Routed(module, axes, home or axes.placement)  # type: ignore[method-assign]


class _Routed:
    """``MoE.routed`` of global tokens."""

    def __init__(self, module: MoE, axes: Axes, home: torch.placement) -> None:
        self.module, self.axes, self.home = module, axes, home

    def __call__(self, x: Tensor) -> Tensor:
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
        # What is counted on each rank's own tokens is a term of the whole.
        counted = [torch.sbp.partial_sum if s.dim is not None else torch.sbp.broadcast for s in layout]
        summed = [torch.sbp.partial_sum if term else s for s, term in zip(layout, terms, strict=True)]
        results = [Result(summed, x.shape)]
        if module.balance:
            of_loss = [torch.sbp.partial_sum if term else s for s, term in zip(counted, terms, strict=True)]
            results.append(Result(of_loss, []))
        is_cut = axes.size("cp") > 1 and axes.of(x, "cp") == torch.sbp.split(1)
        longest = -(-x.shape[1] // axes.size("cp")) if is_cut else x.shape[1]

        def routed(own: Tensor, router: Tensor, *experts: Tensor) -> tuple[Tensor, ...]:
            routing = module.route(own, router, module.bias.to_local())
            counts = module.counts(routing)
            load = _layouts.assemble(counts, axes.placement, counted, list(counts.shape)).to_global(sbp=axes.layout())
            is_traced = torch._oneflow._is_tracing()
            module.load = None if is_traced else load
            if module.dense:
                y = module.masked(own, routing, *experts)
            elif is_traced:
                y = module.placed(own, routing, longest, lambda held: self._run_places(held, *experts))
            else:
                y = module.dispatch(own, routing, lambda rows, sizes: self._run(rows, sizes, *experts))
            if not module.balance:
                return (y,)
            n_tokens = x.shape.numel() // module.width
            share = load.to_local().to(routing.scores.dtype) / (n_tokens * module.top_k)
            loss = module.balance * module.n_experts * (share * routing.scores.sum(0)).sum() / n_tokens
            return (y, loss / axes.size("tp"))

        weights = (module.router.weight, module.gate, module.up, module.down)
        inputs = [(x, of_x), *((weight, self._of_gradient(weight, layout)) for weight in weights)]
        y, *losses = on_parts(axes, routed, inputs, results)
        for loss in losses:
            loss = loss.to_global(sbp=axes.layout())
            module.auxiliary_loss = loss.to_global(placement=self.home, sbp=axes.layout())
        return axes.changed(y, "tp", torch.sbp.split(1) if is_split else torch.sbp.broadcast)

    def _of_gradient(self, weight: Tensor, layout: list[Any]) -> list[Placement]:
        """The gradient of a weight is summed over the ranks that have other tokens."""
        places: list[Placement] = []
        for name, s, w in zip(self.axes.names, layout, weight.sbp, strict=True):
            summed = s.dim is not None or name == "tp"
            places.append(Shard(w.dim) if w.dim is not None else Partial() if summed else Replicate())
        return places

    def _run(self, rows: Tensor, counts: Tensor, *experts: Tensor) -> Tensor:
        """Results of rows in the order of experts, by the ranks that have these."""
        module, n = self.module, self.axes.size("ep")
        if n == 1:
            return run_experts(rows, counts.tolist(), *experts)
        group, each = self.axes.group("ep"), module.n_experts // n
        coming = torch.empty_like(counts)
        distributed.all_to_all_single(coming, counts, group=group)
        sent, received = (x.view(n, each).sum(1).tolist() for x in (counts, coming))
        got = functional.all_to_all_single(rows, received, sent, group)
        # By ranks and their experts, to experts.
        owners = torch.arange(each, device=rows.device).repeat(n).repeat_interleave(coming)
        order = owners.argsort(stable=True)
        found = run_experts(got[order], coming.view(n, each).sum(0).tolist(), *experts)
        return functional.all_to_all_single(found[order.argsort()], sent, received, group)

    def _run_places(self, held: Tensor, *experts: Tensor) -> Tensor:
        """The same of (experts, places, width)."""
        return self._traded(run_places(self._traded(held, 1, 0), *experts), 0, 1)

    def _traded(self, x: Tensor, joined: int, split: int) -> Tensor:
        """All-to-all of (experts, places, width) over "ep": the parts of one dimension are joined, another is split."""
        axes, n = self.axes, self.axes.size("ep")
        if n == 1:
            return x
        # A dimension for each other axis, whose ranks have parts of their own.
        others = {name: torch.sbp.split(i) for i, name in enumerate(name for name in axes.names if name != "ep")}
        sizes = [axes.size(name) for name in others] + list(x.shape)
        sizes[len(others) + joined] *= n
        layout = axes.layout(**others, ep=torch.sbp.split(len(others) + joined))
        whole = axes.enter(x.reshape([1] * len(others) + list(x.shape)), layout, sizes)
        own = _layouts.to_local(axes.changed(whole, "ep", torch.sbp.split(len(others) + split)))
        return own.view(own.shape[len(others) :])
