"""Programs on each rank's parts of global tensors, for what no layout describes.

A rank calls the stages of a pipeline that other ranks hold too. There it has no part, runs nothing, and knows of the
results and the gradients what it needs to go on: their layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import oneflow as torch
from oneflow import Tensor, _oneflow
from oneflow.autograd.function import Function
from oneflow.distributed.tensor import Placement, Replicate, _layouts
from oneflow.distributed.tensor.placement_types import from_sbp, to_sbp
from oneflow.models._parallel.axes import Axes

__all__ = ["Result", "on_parts", "working_dtype"]


@dataclass(frozen=True)
class Result:
    """What is known of a result without computing it.

    Args:
        layout: for each axis of the mesh.
        sizes: of the whole.
        dtype: that of the first input by default.
    """

    layout: Sequence[Any]
    sizes: Sequence[int]
    dtype: Any = None


def on_parts(
    axes: Axes,
    program: Callable[..., Sequence[Tensor]],
    inputs: Sequence[tuple[Tensor | None, Sequence[Placement] | None]],
    results: Sequence[Result],
    n_moves: tuple[int, int] = (0, 0),
) -> tuple[Tensor, ...]:
    """Run a program on this rank's parts of tensors; return the global tensors of which its results are the parts.

    Args:
        program: takes a part of each input, None for None, and returns a part of each result.
        inputs: global tensors, each with the layout of its gradient's parts: that of the tensor by default.
        results: what the program returns.
        n_moves: in a trace, how many moves between placements its forward and its backward make. Ranks that do not run
            it count them.
    """
    if axes.is_here:
        parts = [None if x is None else _layouts.to_local(x, of_grad) for x, of_grad in inputs]
        found = program(*parts)
        return tuple(axes.enter(y, list(r.layout), list(r.sizes)) for y, r in zip(found, results, strict=True))
    first = next(x for x, _ in inputs if x is not None)
    made = [(list(r.sizes), r.dtype or first.dtype, list(r.layout)) for r in results]
    layouts = [None if x is None else _of_gradient(x, of_grad) for x, of_grad in inputs]
    return _Elsewhere.apply(axes.placement, made, layouts, n_moves, *[x for x, _ in inputs])


def working_dtype(x: Tensor) -> Any:
    """The dtype in which a linear layer multiplies ``x``."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def _of_gradient(x: Tensor, placements: Sequence[Placement] | None) -> list[Any]:
    if placements is None:
        placements = [Replicate() if p.is_partial() else p for p in from_sbp(x.sbp)]
    return to_sbp(placements, len(x.sbp), x.dim(), "on_parts")


def _empty(sizes: Sequence[int], dtype: Any, placement: Any, layout: list[Any]) -> Tensor:
    return _oneflow._C._assemble(torch.empty(0, dtype=dtype), placement, layout, list(sizes))


def _passed(n: int) -> None:
    if n and _oneflow._is_tracing():
        _oneflow._pass_moves(n)


class _Elsewhere(Function):
    """A program that other ranks run."""

    @staticmethod
    def forward(ctx: Any, placement: Any, made: Any, layouts: Any, n_moves: tuple[int, int], *inputs: Any) -> Any:
        ctx.placement, ctx.layouts, ctx.n_moves = placement, layouts, n_moves
        ctx.inputs = [None if x is None else (list(x.shape), x.dtype) for x in inputs]
        _passed(n_moves[0])
        # As the program does: what runs again in a backward runs until all is there that was saved.
        ctx.save_for_backward(next(x for x in inputs if x is not None))
        return tuple(_empty(sizes, dtype, placement, layout) for sizes, dtype, layout in made)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        _ = ctx.saved_tensors
        _passed(ctx.n_moves[1])
        grads: list[Tensor | None] = []
        for known, layout, needed in zip(ctx.inputs, ctx.layouts, ctx.needs_input_grad[4:], strict=True):
            wanted = layout is not None and needed
            grads.append(_empty(known[0], known[1], ctx.placement, layout) if wanted else None)
        return (None, None, None, None, *grads)
