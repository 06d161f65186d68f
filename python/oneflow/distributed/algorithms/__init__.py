"""Algorithms of ``torch.distributed``: hooks of gradients, uneven inputs, averages, checkpointing by wrapping."""

from __future__ import annotations

from typing import Any

from oneflow._base.lazy import LazyNames

_lazy = LazyNames("oneflow.distributed.algorithms", ("ddp_comm_hooks", "join", "model_averaging"))


def __getattr__(name: str) -> Any:
    """Return a module, imported on first use."""
    return _lazy.find(name)
