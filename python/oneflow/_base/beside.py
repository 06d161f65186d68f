"""Constants of a composition, made where its tensors are; numbers that every rank has, brought together."""

from __future__ import annotations

import oneflow
from oneflow import Tensor, _oneflow


def beside(x: Tensor, constant: Tensor) -> Tensor:
    """``constant`` as a tensor that goes with ``x``: whole on every rank of a global tensor, each of which has made it.

    Nothing is sent, unless the constant is global and lies elsewhere; in a trace it is one node.
    """
    if not x.is_global:
        return constant
    whole = [oneflow.sbp.broadcast] * len(x.sbp)
    if constant.is_global:
        return constant.to_global(x.placement, whole)
    return _oneflow._C._assemble(constant, x.placement, whole, constant.shape)


def laid_like(x: Tensor, whole: Tensor) -> Tensor:
    """A tensor in the layout of ``x``, if that is global: of a local one the value on the placement's first rank."""
    if not x.is_global:
        return whole
    if whole.is_global:
        return whole.to_global(x.placement, x.sbp)
    spread = whole.to_global(x.placement, [oneflow.sbp.broadcast] * len(x.sbp), check_meta=False, copy=True)
    return spread.to_global(sbp=x.sbp)


def everywhere(x: Tensor) -> Tensor:
    """The whole of a global tensor as a local one on every rank; a local one itself."""
    if not x.is_global:
        return x
    return x.detach().to_global(oneflow.placement.all("cpu"), oneflow.sbp.broadcast).to_local()


def total(number: Tensor) -> Tensor:
    """The sum of a local 0-dim tensor over all ranks."""
    placement = oneflow.placement.all(number.device.type)
    parts = _oneflow._C._assemble(number, placement, oneflow.sbp.partial_sum, number.shape)
    return parts.to_global(sbp=oneflow.sbp.broadcast).to_local()
