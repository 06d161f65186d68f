"""Options of :class:`~oneflow.distributed.fsdp.FullyShardedDataParallel`."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]


class ShardingStrategy(enum.Enum):
    """What ranks keep slices of, and when they free what they gathered.

    ``FULL_SHARD`` frees parameters after the forward and after the backward, ``SHARD_GRAD_OP`` after the backward
    alone, ``NO_SHARD`` never. The hybrid strategies shard inside groups of ranks (those of a machine by default) and
    replicate over the groups.

    Example::

        >>> oneflow.distributed.fsdp.ShardingStrategy.FULL_SHARD.name
        'FULL_SHARD'
    """

    FULL_SHARD = enum.auto()
    SHARD_GRAD_OP = enum.auto()
    NO_SHARD = enum.auto()
    HYBRID_SHARD = enum.auto()
    _HYBRID_SHARD_ZERO2 = enum.auto()


class BackwardPrefetch(enum.Enum):
    """When a backward begins to gather the parameters of the module before: ahead of its own reduction, or after it.

    Example::

        >>> oneflow.distributed.fsdp.BackwardPrefetch.BACKWARD_PRE.name
        'BACKWARD_PRE'
    """

    BACKWARD_PRE = enum.auto()
    BACKWARD_POST = enum.auto()


@dataclass(frozen=True)
class MixedPrecision:
    """Dtypes: of parameters while they are computed with, of reductions, of buffers.

    Example::

        >>> oneflow.distributed.fsdp.MixedPrecision(param_dtype=oneflow.bfloat16).cast_forward_inputs
        False
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Any = ()


@dataclass
class CPUOffload:
    """Whether slices, their gradients and the states of optimizers live in host memory: see
    :class:`~oneflow.distributed.fsdp.CPUOffloadPolicy`.

    Example::

        >>> oneflow.distributed.fsdp.CPUOffload()
        CPUOffload(offload_params=False)
    """

    offload_params: bool = False


class StateDictType(enum.Enum):
    """What ``state_dict`` holds: whole tensors, the rank's own slices, or DTensors.

    Example::

        >>> oneflow.distributed.fsdp.StateDictType.FULL_STATE_DICT.name
        'FULL_STATE_DICT'
    """

    FULL_STATE_DICT = enum.auto()
    LOCAL_STATE_DICT = enum.auto()
    SHARDED_STATE_DICT = enum.auto()


@dataclass
class StateDictConfig:
    """Base class of the options of ``state_dict``.

    Example::

        >>> oneflow.distributed.fsdp.StateDictConfig().offload_to_cpu
        False
    """

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """``rank0_only``: the other ranks get an empty dictionary.

    Example::

        >>> oneflow.distributed.fsdp.FullStateDictConfig(rank0_only=True).rank0_only
        True
    """

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Options of the rank's own slices.

    Example::

        >>> oneflow.distributed.fsdp.LocalStateDictConfig().offload_to_cpu
        False
    """


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Options of DTensors.

    Example::

        >>> oneflow.distributed.fsdp.ShardedStateDictConfig().offload_to_cpu
        False
    """

    _use_dtensor: bool = True


@dataclass
class OptimStateDictConfig:
    """Base class of the options of ``optim_state_dict``.

    Example::

        >>> oneflow.distributed.fsdp.OptimStateDictConfig().offload_to_cpu
        True
    """

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """``rank0_only``: the other ranks get an empty dictionary.

    Example::

        >>> oneflow.distributed.fsdp.FullOptimStateDictConfig().rank0_only
        False
    """

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Options of the rank's own slices.

    Example::

        >>> oneflow.distributed.fsdp.LocalOptimStateDictConfig().offload_to_cpu
        False
    """

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Options of DTensors.

    Example::

        >>> oneflow.distributed.fsdp.ShardedOptimStateDictConfig().offload_to_cpu
        True
    """

    _use_dtensor: bool = True


@dataclass
class StateDictSettings:
    """What :meth:`FullyShardedDataParallel.set_state_dict_type` replaced.

    Example::

        >>> from oneflow.distributed.fsdp import StateDictSettings, StateDictType
        >>> StateDictSettings(StateDictType.FULL_STATE_DICT).state_dict_type.name
        'FULL_STATE_DICT'
    """

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig = field(default_factory=FullStateDictConfig)
    optim_state_dict_config: OptimStateDictConfig = field(default_factory=FullOptimStateDictConfig)


class OptimStateKeyType(enum.Enum):
    """By what the state dictionary of an optimizer finds parameters: names, or numbers as ``optim.state_dict()`` has.

    Example::

        >>> oneflow.distributed.fsdp.OptimStateKeyType.PARAM_NAME.name
        'PARAM_NAME'
    """

    PARAM_NAME = enum.auto()
    PARAM_ID = enum.auto()
