"""Attention on each rank's own heads, where several heads share keys and values.

Which heads share what is known here, and not to the rule by which global ops choose layouts: it would move them.
"""

from __future__ import annotations

from typing import Any

import oneflow as torch
import oneflow.nn.functional as F
from oneflow import Tensor, nn
from oneflow.distributed.tensor import _layouts
from oneflow.distributed.tensor.placement_types import Partial, Placement, from_sbp
from oneflow.models.layers import Attention

__all__ = ["local_copy", "own_heads", "own_mask"]


def local_copy(x: Tensor) -> Tensor:
    """This rank's part of a tensor that other parts of a batch read too: its gradients are summed over ranks."""
    wanted: list[Placement] = [p if p.is_shard() else Partial() for p in from_sbp(x.sbp)]
    return _layouts.to_local(x, wanted)


def own_mask(mask: Tensor, query: Tensor) -> Tensor:
    """This rank's part of a mask, split as the rows of the scores of ``query`` are; all keys are in it."""
    mask = mask.view(*(1,) * (query.dim() - mask.dim()), *mask.shape)
    layout = [s if s.dim is not None and mask.shape[s.dim] > 1 else torch.sbp.broadcast for s in query.sbp]
    return local_copy(mask.to_global(sbp=layout))


def own_heads(model: nn.Module) -> None:
    """Let the attention of ``model`` compute on this rank's heads where these share keys and values."""
    for module in model.modules():
        if isinstance(module, Attention) and module.n_heads != module.n_kv_heads:
            module.attend = _Attend(module)  # type: ignore[method-assign]


class _Attend:
    def __init__(self, module: Attention) -> None:
        self.whole, self.module = module.attend, module

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        drops = self.module.dropout > 0 and self.module.training
        # What is dropped follows from the place of a weight in the whole.
        if not query.is_global or drops or any(s.dim not in (None, 0, 1) for s in query.sbp):
            return self.whole(query, key, value, mask, is_causal)
        layout: list[Any] = [torch.sbp.broadcast if s == torch.sbp.partial_sum else s for s in query.sbp]
        q, k, v = (_layouts.to_local(x.to_global(sbp=layout)) for x in (query, key, value))
        own = None if mask is None else own_mask(mask, query)
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=own, is_causal=is_causal, scale=self.module.scale, enable_gqa=True
        )
        return _layouts.enter(y, query.placement, layout, [*query.shape[:3], value.shape[3]])
