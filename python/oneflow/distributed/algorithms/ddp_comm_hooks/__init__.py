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
    quantization_hooks,
)

__all__ = [
    "DDPCommHookType",
    "debugging_hooks",
    "default_hooks",
    "post_localSGD_hook",
    "powerSGD_hook",
    "quantization_hooks",
    "register_ddp_comm_hook",
]


def _register(model: Any, state: Any, comm_hook: Any) -> None:
    model.register_comm_hook(state, comm_hook)


def _register_power_sgd(model: Any, state: Any, comm_hook: Any, matrix_approximation_rank: int) -> None:
    if not isinstance(state, powerSGD_hook.PowerSGDState):
        state = powerSGD_hook.PowerSGDState(state, matrix_approximation_rank)
    model.register_comm_hook(state, comm_hook)


class DDPCommHookType(enum.Enum):
    """The hooks of this package by name; each value is a function of a model and a state that registers its hook.

    The state is a process group. For ``POWER_SGD`` and its like it may be a ``PowerSGDState``: of a group one is made
    that averages in full for 1000 steps before it begins. For ``POST_LOCAL_SGD`` it is a ``PostLocalSGDState``.

    Example::

        >>> from oneflow.distributed.algorithms.ddp_comm_hooks import DDPCommHookType
        >>> DDPCommHookType.ALLREDUCE.name
        'ALLREDUCE'
    """

    ALLREDUCE = functools.partial(_register, comm_hook=default_hooks.allreduce_hook)
    FP16_COMPRESS = functools.partial(_register, comm_hook=default_hooks.fp16_compress_hook)
    BF16_COMPRESS = functools.partial(_register, comm_hook=default_hooks.bf16_compress_hook)
    QUANTIZE_PER_TENSOR = functools.partial(_register, comm_hook=quantization_hooks.quantization_pertensor_hook)
    QUANTIZE_PER_CHANNEL = functools.partial(_register, comm_hook=quantization_hooks.quantization_perchannel_hook)
    POWER_SGD = functools.partial(
        _register_power_sgd, comm_hook=powerSGD_hook.powerSGD_hook, matrix_approximation_rank=1
    )
    POWER_SGD_RANK2 = functools.partial(
        _register_power_sgd, comm_hook=powerSGD_hook.powerSGD_hook, matrix_approximation_rank=2
    )
    BATCHED_POWER_SGD = functools.partial(
        _register_power_sgd, comm_hook=powerSGD_hook.batched_powerSGD_hook, matrix_approximation_rank=1
    )
    BATCHED_POWER_SGD_RANK2 = functools.partial(
        _register_power_sgd, comm_hook=powerSGD_hook.batched_powerSGD_hook, matrix_approximation_rank=2
    )
    NOOP = functools.partial(_register, comm_hook=debugging_hooks.noop_hook)
    POST_LOCAL_SGD = functools.partial(_register, comm_hook=post_localSGD_hook.post_localSGD_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Register a hook of this package with a model.

    Example::

        >>> from oneflow.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
        >>> register_ddp_comm_hook(DDPCommHookType.BF16_COMPRESS, model)
    """
    comm_hook_type.value(model=model, state=state)
