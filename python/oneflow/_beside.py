"""Constants of a composition, made where its tensors are."""

from __future__ import annotations

import oneflow
from oneflow import Tensor


def beside(x: Tensor, constant: Tensor) -> Tensor:
    """``constant`` as a tensor that goes with ``x``: whole on every rank of a global tensor."""
    if not x.is_global:
        return constant
    return constant.to_global(x.placement, [oneflow.sbp.broadcast] * len(x.sbp), check_meta=False)
