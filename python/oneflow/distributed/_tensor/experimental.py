"""The older place of :mod:`oneflow.distributed.tensor.experimental`."""

from __future__ import annotations

from oneflow.distributed.tensor.experimental import context_parallel, implicit_replication

__all__ = ["context_parallel", "implicit_replication"]
