"""What a sharded module computes, sends and keeps in: options of :func:`~oneflow.distributed.fsdp.fully_shard`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

__all__ = ["CPUOffloadPolicy", "DiskOffloadPolicy", "MixedPrecisionPolicy", "OffloadPolicy"]


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
    """Slices, their gradients and the states of optimizers stay in host memory, where those of a mesh of CPUs are
    anyway.

    With a mesh of GPUs slices are tensors of the host: they are copied to the GPU when they are gathered, one module
    ahead, and their gradients come back when they have been reduced. The optimizer works on the host.

    Args:
        pin_memory: whether slices are in pinned memory, which a GPU copies while it works; of a mesh of CPUs no GPU
            copies any.

    Example::

        >>> oneflow.distributed.fsdp.CPUOffloadPolicy()
        CPUOffloadPolicy(pin_memory=True)
    """

    pin_memory: bool = True


@dataclass
class DiskOffloadPolicy(OffloadPolicy):
    """Slices, and the states that optimizers make for them, lie in files without names; for a mesh of CPUs.

    Pages are read when a module is about to be gathered, one module ahead, and for an optimizer's step, one parameter
    ahead; they go back to the disk afterwards. Values have the same bits. Slices of less than 64 KiB, and gradients,
    stay in memory. Optimizers whose rule is in Python alone read all states at once.

    Args:
        folder: of the files, which must not lie in memory; the system's one for temporary files by default.

    Example::

        >>> oneflow.distributed.fsdp.DiskOffloadPolicy().folder is None
        True
    """

    folder: str | os.PathLike[str] | None = None
