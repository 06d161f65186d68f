"""Parameters and optimizer states in slices inside a graph: what ``GraphConfig.enable_zero`` does to a trace.

Source: Rajbhandari, Rasley, Ruwase and He, ZeRO: Memory Optimizations Toward Training Trillion Parameter Models
(arXiv:1910.02054).

A replicated parameter of enough elements is given a split layout over a mesh axis that replicates it, and so are its
optimizer's states. The slice is what stays between steps: the update works on it, and a module gathers the parameter
when it is called, so that the gathers of a step hide behind its forward as the reductions of gradients hide behind its
backward. With stages 1 and 2 a step gathers a parameter once and keeps it until its backward; gradients are all-reduced
(1) or reduce-scattered (2). With stage 3 each call of a module gathers, and the backward gathers again. Everything is a
move between layouts, so the planner of boxing does the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import oneflow
from oneflow import Tensor, sbp
from oneflow._trace.seen import Seen
from oneflow.autograd.function import Function

__all__ = ["Zero"]


class Zero:
    """The layouts of one trace.

    Args:
        options: stage, least elements, and whether modules gather by themselves (``shard_restore_level``).
        optimizers: those that the graph steps.
    """

    def __init__(self, options: tuple[int, int, int], optimizers: Iterable[Any], name: str) -> None:
        self.stage, least, level = options
        self.gathers = level > 0
        self._optimizers = list(optimizers)
        # By id, during a trace: the parameter as stages 1 and 2 have gathered it for the whole step.
        self._gathered: dict[int, Tensor] = {}
        params = [p for o in self._optimizers for g in o.param_groups for p in g["params"] if p.requires_grad]
        if oneflow.env.get_world_size() > 1 and params and not any(p.is_global for p in params):
            raise RuntimeError(
                f"{name}: enable_zero() splits global tensors, and the optimizers' parameters are local; make the "
                "model global: module.to_global(placement, oneflow.sbp.broadcast)"
            )
        # By id: the parameter, its layout as modules use it, and the split one.
        self.plan: dict[int, tuple[Tensor, list[Any], list[Any]]] = {}
        for p in params:
            known = getattr(p, "_zero_layout", None)
            if known is not None and list(p.sbp) == known[1]:
                # Split by an earlier trace.
                self.plan[id(p)] = (p, *known)
            elif p.is_global and p.numel() >= least and (layout := _split(p)) is not None:
                self.plan[id(p)] = (p, list(p.sbp), layout)

    # ---- before the trace

    def split_parameters(self) -> None:
        """Each rank keeps its slice."""
        for p, whole, layout in self.plan.values():
            if list(p.sbp) != layout:
                p.data = p.detach().to_global(sbp=layout, copy=True)
                p._zero_layout = (whole, layout)  # type: ignore[attr-defined]

    def split_states(self) -> None:
        """Each rank keeps its slice of the states."""
        for optimizer in self._optimizers:
            for p, state in optimizer.state.items():
                if id(p) not in self.plan:
                    continue
                layout = self.plan[id(p)][2]
                for key, value in state.items():
                    if isinstance(value, Tensor) and value.is_global and value.shape == p.shape:
                        if list(value.sbp) != layout:
                            state[key] = value.detach().to_global(sbp=layout, copy=True)

    # ---- during the trace

    def bring(self, seen: Seen, is_on_host: Callable[[Tensor], bool]) -> None:
        """Let modules see parameters whose gradients come in slices; slices on the host are copied from there first."""
        self._gathered.clear()
        if self.stage == 3 and not self.gathers:
            return
        for p, _, _ in self.plan.values():
            seen.add(p, functools.partial(self._seen, is_on_host(p)), self.stage == 3)

    def forget(self) -> None:
        """Drop what was traced."""
        self._gathered.clear()

    def _seen(self, on_host: bool, p: Tensor) -> Tensor:
        """A parameter as its module sees it."""
        _, whole, layout = self.plan[id(p)]
        if self.stage == 3:
            return (p.clone() if on_host else p).to_global(sbp=whole)
        if id(p) not in self._gathered:
            own = p.detach()
            self._gathered[id(p)] = (own.clone() if on_host else own).to_global(sbp=whole)
        gradient = whole if self.stage == 1 else layout
        return _GradInLayout.apply(self._gathered[id(p)], oneflow.ones((), requires_grad=True), p, gradient)

    def step(self, optimizer: Any, step: Callable[[], None]) -> None:
        """Trace a step: with stage 1 a rank takes its slice of a gradient that all have."""
        for group in optimizer.param_groups:
            for p in group["params"]:
                if id(p) in self.plan and p.grad is not None and list(p.grad.sbp) != list(p.sbp):
                    with oneflow.no_grad():
                        p.grad = p.grad.to_global(sbp=p.sbp)
        step()


def _split(p: Tensor) -> list[Any] | None:
    """The layout of a slice: along the first dimension that a replicating axis can split.

    A dimension that no axis splits comes first: its slices lie on the ranks already.
    """
    sizes = list(p.shape)
    shape = p.placement.ranks.shape
    for axis, s in enumerate(p.sbp):
        if s.dim is not None:
            sizes[s.dim] //= shape[axis]
    parts = {s.dim for axis, s in enumerate(p.sbp) if shape[axis] > 1}
    for axis, s in enumerate(p.sbp):
        if s == sbp.broadcast and shape[axis] > 1:
            for dim in sorted(range(len(sizes)), key=lambda dim: dim in parts):
                if sizes[dim] >= shape[axis]:
                    layout = list(p.sbp)
                    layout[axis] = sbp.split(dim)
                    return layout
    return None


class _GradInLayout(Function):
    """A gathered parameter whose gradient goes to ``p.grad`` in a layout: a split one makes the all-reduce a
    reduce-scatter."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, anchor: Tensor, p: Tensor, layout: list[Any]) -> Tensor:
        ctx.param, ctx.layout = p, layout
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        p = ctx.param
        part = grad.to_global(p.placement, ctx.layout)
        p.grad = part if p.grad is None else p.grad + part
        return None, None, None, None
