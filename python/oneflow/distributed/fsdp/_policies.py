"""What a sharded module computes, sends and keeps in: options of :func:`~oneflow.distributed.fsdp.fully_shard`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["CPUOffloadPolicy", "MixedPrecisionPolicy", "OffloadPolicy"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes of a sharded module.

    Args:
        param_dtype: parameters are gathered and computed with in this one; shards keep theirs.
        reduce_dtype: gradients are reduced in this one; ``param_dtype`` by default.
        output_dtype: floating outputs of the module are cast to this one.
        cast_forward_inputs: whether floating inputs are cast to ``param_dtype``.

    Example::

        >>> oneflow.distributed.fsdp.MixedPrecisionPolicy(param_dtype=oneflow.bfloat16).cast_forward_inputs
        True
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Shards stay on the mesh's device: the default.

    Example::

        >>> oneflow.distributed.fsdp.OffloadPolicy()
        OffloadPolicy()
    """


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Shards, their gradients and the states of optimizers stay in host memory, where those of a mesh of CPUs are
    anyway. ``pin_memory`` has no effect there: no GPU copies them.

    Example::

        >>> oneflow.distributed.fsdp.CPUOffloadPolicy()
        CPUOffloadPolicy(pin_memory=True)
    """

    pin_memory: bool = True
