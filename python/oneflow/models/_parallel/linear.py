"""Linear layers on each rank's part of a sequence.

The gradient of a weight joins batch and time into rows. No layout describes the rows of a split sequence, so by global
ops inputs and gradients would travel; here each rank multiplies what it has, and gradients of weights are summed.
"""

from __future__ import annotations

from typing import Any

import oneflow as torch
import oneflow.nn.functional as F
from oneflow import Tensor, nn
from oneflow.distributed.tensor import Partial, Placement, Replicate, Shard
from oneflow.models._parallel.axes import Axes
from oneflow.models._parallel.parts import Result, on_parts, working_dtype
from oneflow.models.generation import Generator

__all__ = ["split_linears"]


def split_linears(model: nn.Module, axes: Axes) -> None:
    """Let every linear layer, and the table that gives a language model's logits, work on parts of a sequence."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.forward = _Forward(module, axes)  # type: ignore[method-assign, assignment]
    if isinstance(model, Generator) and getattr(model, "head", None) is None:
        table: Any = model
        table.logits = lambda hidden: _linear(hidden, table.token.weight, None, axes)


class _Forward:
    def __init__(self, module: nn.Linear, axes: Axes) -> None:
        self.module, self.axes = module, axes

    def __call__(self, x: Tensor) -> Tensor:
        return _linear(x, self.module.weight, self.module.bias, self.axes)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None, axes: Axes) -> Tensor:
    """``x @ weight.T + bias``, axis by axis of the mesh."""
    last = x.dim() - 1
    whole = torch.sbp.broadcast
    if not (x.is_global and weight.is_global):
        return F.linear(x, weight, bias)
    if all(w == whole for w in weight.sbp) and all(s.dim in (None, 0, last) for s in x.sbp):
        return F.linear(x, weight, bias)
    layout: list[Any] = []
    of_x: list[Placement] = []
    of_weight: list[Placement] = []
    of_bias: list[Placement] = []
    summed: list[str] = []
    for name, s, w in zip(axes.names, x.sbp, weight.sbp, strict=True):
        found: tuple[Any, Placement, Placement, Placement]
        if s.dim is not None and s.dim < last and w == whole:
            found = (s, Shard(s.dim), Partial(), Partial())
        elif s == whole and w == whole:
            found = (whole, Replicate(), Replicate(), Replicate())
        elif s == whole and w.dim == 0:
            found = (torch.sbp.split(last), Partial(), Shard(0), Shard(0))
        elif s.dim == last and w.dim == 1:
            found = (torch.sbp.partial_sum, Shard(last), Shard(1), Replicate())
            summed.append(name)
        else:
            return F.linear(x, weight, bias)
        for places, one in zip((layout, of_x, of_weight, of_bias), found, strict=True):
            places.append(one)

    def product(own: Tensor, own_weight: Tensor, own_bias: Tensor | None) -> tuple[Tensor]:
        if own_bias is not None and any(axes.here(name) for name in summed):
            # Terms of a sum, of which one has the bias; all ranks see the gradient of the sum.
            own_bias = own_bias - own_bias.detach()
        return (F.linear(own, own_weight, own_bias),)

    inputs = [(x, of_x), (weight, of_weight), (bias, of_bias)]
    (y,) = on_parts(axes, product, inputs, [Result(layout, [*x.shape[:-1], weight.shape[0]], working_dtype(x))])
    return y
