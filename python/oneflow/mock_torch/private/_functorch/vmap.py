"""``torch._functorch.vmap``: names that packages import to take part in ``vmap``."""

from __future__ import annotations

from oneflow import Tensor
from oneflow._base.refusals import refuse
from oneflow.func import vmap
from oneflow.utils._pytree import tree_flatten, tree_unflatten

_INSTEAD = "oneflow.vmap takes nests of tensors apart, and joins them, itself"
_add_batch_dim = refuse("torch._functorch.vmap._add_batch_dim", _INSTEAD)
_maybe_remove_batch_dim = refuse("torch._functorch.vmap._maybe_remove_batch_dim", _INSTEAD)
_broadcast_to_and_flatten = refuse("torch._functorch.vmap._broadcast_to_and_flatten", _INSTEAD)
_get_name = refuse("torch._functorch.vmap._get_name", _INSTEAD)
_validate_and_get_batch_size = refuse("torch._functorch.vmap._validate_and_get_batch_size", _INSTEAD)
_process_batched_inputs = refuse("torch._functorch.vmap._process_batched_inputs", _INSTEAD)
_create_batched_inputs = refuse("torch._functorch.vmap._create_batched_inputs", _INSTEAD)
_unwrap_batched = refuse("torch._functorch.vmap._unwrap_batched", _INSTEAD)

__all__ = ["Tensor", "tree_flatten", "tree_unflatten", "vmap"]
