"""Local values as global tensors in the layout of another tensor, and back."""

from __future__ import annotations

import oneflow
from oneflow import Tensor, _oneflow


def replicate_like(x: Tensor, constant: Tensor) -> Tensor:
    """Return a constant that ops can combine with ``x``: replicated over its placement if ``x`` is global.

    Every rank has computed the constant, so nothing is sent, unless it is global with another placement. In a trace it
    is one node.
    """
    if not x.is_global:
        return constant
    replicated = [oneflow.sbp.broadcast] * len(x.sbp)
    if constant.is_global:
        return constant.to_global(x.placement, replicated)
    return _oneflow._C._assemble(constant, x.placement, replicated, constant.shape)


def distribute_like(x: Tensor, whole: Tensor) -> Tensor:
    """Return ``whole`` in the layout of ``x`` if that is global. A local value is taken from the first rank."""
    if not x.is_global:
        return whole
    if whole.is_global:
        return whole.to_global(x.placement, x.sbp)
    replicated = [oneflow.sbp.broadcast] * len(x.sbp)
    return whole.to_global(x.placement, replicated, check_meta=False, copy=True).to_global(sbp=x.sbp)


def gather_full(x: Tensor) -> Tensor:
    """Return the whole of a global tensor as a local tensor on every rank, and a local tensor as it is."""
    if not x.is_global:
        return x
    return x.detach().to_global(oneflow.placement.all("cpu"), oneflow.sbp.broadcast).to_local()


def sum_over_ranks(number: Tensor) -> Tensor:
    """Return the sum of a local 0-dim tensor over all ranks."""
    placement = oneflow.placement.all(number.device.type)
    parts = _oneflow._C._assemble(number, placement, oneflow.sbp.partial_sum, number.shape)
    return parts.to_global(sbp=oneflow.sbp.broadcast).to_local()
