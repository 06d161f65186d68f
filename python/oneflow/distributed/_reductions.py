"""Reductions of GPU tensors that NCCL does not have: short integers and bits of integers. Ranks gather, then reduce."""

from __future__ import annotations

import functools
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.distributed._work import _Steps

_BITS = {"band": oneflow.bitwise_and, "bor": oneflow.bitwise_or, "bxor": oneflow.bitwise_xor}
_INTEGERS = (oneflow.int8, oneflow.uint8, oneflow.int16, oneflow.int32, oneflow.int64)


def needs_gathering(kind: str, output: Tensor, *_: Any, op: Any = None, **__: Any) -> bool:
    """Whether the backend of GPUs cannot reduce these elements."""
    if kind not in ("all_reduce", "reduce", "reduce_scatter"):
        return False
    if output.dtype == oneflow.bool:
        return op == "bxor"
    return output.dtype == oneflow.int16 or (output.dtype in _INTEGERS and op in _BITS)


def by_gathering(
    group: Any,
    manager: Any,
    async_op: bool,
    kind: str,
    output: Tensor,
    input: Tensor | None = None,
    *,
    op: Any = "sum",
    peer: int = 0,
    counts: list[int] | None = None,
) -> Any:
    """Give every rank all tensors, of which it reduces what it keeps."""
    mine = (output if input is None else input).detach().view(-1)
    whole = mine.new_empty(group.size() * mine.numel())
    work = group.issue("all_gather", whole, mine)
    here = group.rank()
    at = 0 if kind != "reduce_scatter" else sum(counts[:here]) if counts else here * output.numel()

    def reduce() -> None:
        if kind == "reduce" and here != peer:
            return
        with oneflow.no_grad():
            parts = whole.view(group.size(), -1)[:, at : at + output.numel()]
            output.copy_(_reduced(parts, str(op)).to(output.dtype).view(output.shape))

    steps = _Steps([work], reduce, [output])
    if manager is not None:
        manager.append(steps)
        return None
    if async_op:
        return steps
    steps.wait()
    return None


def _reduced(parts: Tensor, op: str) -> Tensor:
    """The reduction over dimension 0, in the widest integers."""
    if op in _BITS:
        return functools.reduce(_BITS[op], parts.unbind(0))
    wide = parts.to(oneflow.int64)
    if op == "avg":
        return oneflow.div(wide.sum(0), len(parts), rounding_mode="trunc")
    if op in ("min", "max"):
        return wide.amin(0) if op == "min" else wide.amax(0)
    return wide.prod(0) if op == "product" else wide.sum(0)
