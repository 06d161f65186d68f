"""Functions that reduce the gradients of ``DistributedDataParallel``: see its ``register_comm_hook``."""

from __future__ import annotations

import enum
import functools
from typing import Any

from oneflow.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks,
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
)

__all__ = [
    "DDPCommHookType",
    "debugging_hooks",
    "default_hooks",
    "post_localSGD_hook",
    "powerSGD_hook",
    "register_ddp_comm_hook",
]


class DDPCommHookType(enum.Enum):
    """The hooks of this package by name.

    Example::

        >>> from oneflow.distributed.algorithms.ddp_comm_hooks import DDPCommHookType
        >>> DDPCommHookType.ALLREDUCE.name
        'ALLREDUCE'
    """

    ALLREDUCE = functools.partial(default_hooks.allreduce_hook)
    FP16_COMPRESS = functools.partial(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = functools.partial(default_hooks.bf16_compress_hook)
    POWER_SGD = functools.partial(powerSGD_hook.powerSGD_hook)
    NOOP = functools.partial(debugging_hooks.noop_hook)
    POST_LOCAL_SGD = functools.partial(post_localSGD_hook.post_localSGD_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Register a hook of this package with a model.

    Example::

        >>> from oneflow.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
        >>> register_ddp_comm_hook(DDPCommHookType.BF16_COMPRESS, model)
    """
    model.register_comm_hook(state, comm_hook_type.value)
