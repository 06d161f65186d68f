"""``torch._C._functorch``: what is asked of tensors inside transforms of functions."""

from __future__ import annotations

from oneflow import Tensor
from oneflow._base.refusals import refuse
from oneflow.autograd import _batching

_INSTEAD = "oneflow.vmap takes nests of tensors apart, and joins them, itself"
_add_batch_dim = refuse("torch._C._functorch._add_batch_dim", _INSTEAD)
_remove_batch_dim = refuse("torch._C._functorch._remove_batch_dim", _INSTEAD)
get_unwrapped = refuse("torch._C._functorch.get_unwrapped", _INSTEAD)


def is_batchedtensor(tensor: Tensor) -> bool:
    """Return whether the tensor is one sample of a call of ``vmap`` that is open."""
    return _batching.has_samples(tensor)


def is_legacy_batchedtensor(tensor: Tensor) -> bool:
    """False: there is one ``vmap``."""
    return False


def maybe_current_level() -> int | None:
    """How deep this thread is in calls of ``vmap``; None outside."""
    return len(_batching._levels.open) or None
