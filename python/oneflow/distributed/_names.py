"""PyTorch's names around its collectives: exceptions, settings, and questions about backends and launchers."""

from __future__ import annotations

import datetime
import enum
import os
from typing import Any

from oneflow import Tensor, _oneflow
from oneflow.distributed import _backends
from oneflow.distributed._groups import _group, _made, _seconds, get_backend

__all__ = [
    "BackendConfig",
    "DebugLevel",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "QueueEmptyError",
    "default_pg_timeout",
    "get_backend_config",
    "get_debug_level",
    "get_default_backend_for_device",
    "get_node_local_rank",
    "get_pg_count",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "set_debug_level",
    "set_debug_level_from_env",
    "set_timeout",
    "supports_complex",
]

default_pg_timeout = datetime.timedelta(minutes=30)


class DistError(RuntimeError):
    """The base of the exceptions below.

    Example::

        >>> issubclass(oneflow.distributed.DistStoreError, oneflow.distributed.DistError)
        True
    """


class DistBackendError(DistError):
    """A third party's backend may raise it. Backends of this package raise ``RuntimeError``, as PyTorch's gloo does.

    Example::

        >>> issubclass(oneflow.distributed.DistBackendError, RuntimeError)
        True
    """


class DistNetworkError(DistError):
    """A store's server was not reached, or its port is taken.

    Example::

        >>> issubclass(oneflow.distributed.DistNetworkError, RuntimeError)
        True
    """


class DistStoreError(DistError):
    """A key of a store was not set in time.

    Example::

        >>> store = oneflow.distributed.HashStore()
        >>> try:
        ...     store.wait(["key"], 0.01)
        ... except oneflow.distributed.DistStoreError:
        ...     print("nobody has set it")
        nobody has set it
    """


class QueueEmptyError(DistStoreError):
    """A queue of a store is empty, for who does not wait for a value.

    Example::

        >>> issubclass(oneflow.distributed.QueueEmptyError, oneflow.distributed.DistStoreError)
        True
    """


class DebugLevel(enum.IntEnum):
    """What ``TORCH_DISTRIBUTED_DEBUG`` says. The checks that PyTorch makes at ``DETAIL`` are made here at any level.

    Example::

        >>> oneflow.distributed.DebugLevel.DETAIL > oneflow.distributed.DebugLevel.OFF
        True
    """

    OFF = 0
    INFO = 1
    DETAIL = 2


class BuiltinCommHookType(enum.Enum):
    """Hooks of ``DistributedDataParallel._register_builtin_comm_hook``, which PyTorch has in C++.

    Example::

        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
        >>> model._register_builtin_comm_hook(oneflow.distributed.BuiltinCommHookType.FP16_COMPRESS)
    """

    ALLREDUCE = 1
    FP16_COMPRESS = 2


_level: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """Return what :func:`set_debug_level` or ``TORCH_DISTRIBUTED_DEBUG`` has said; it changes nothing here.

    Example::

        >>> oneflow.distributed.get_debug_level().name
        'OFF'
    """
    if _level is None:
        set_debug_level_from_env()
    assert _level is not None
    return _level


def set_debug_level(debug_level: DebugLevel) -> None:
    """Let :func:`get_debug_level` return it.

    Example::

        >>> oneflow.distributed.set_debug_level(oneflow.distributed.DebugLevel.OFF)
    """
    global _level
    _level = DebugLevel(debug_level)


def set_debug_level_from_env() -> None:
    """Read ``TORCH_DISTRIBUTED_DEBUG``: OFF, INFO or DETAIL.

    Raises:
        RuntimeError: it is something else.

    Example::

        >>> oneflow.distributed.set_debug_level_from_env()
    """
    said = os.environ.get("TORCH_DISTRIBUTED_DEBUG") or "OFF"
    if said.upper() not in DebugLevel.__members__:
        raise RuntimeError(f"The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL, but got {said!r}")
    set_debug_level(DebugLevel[said.upper()])


class BackendConfig:
    """A backend's name with the devices that it serves.

    Args:
        backend: ``"gloo"``, or ``"cpu:gloo,cuda:nccl"``.

    Raises:
        ValueError: a device twice, or a part without a device.

    Example::

        >>> str(oneflow.distributed.BackendConfig("gloo"))
        'cpu:gloo'
    """

    def __init__(self, backend: str) -> None:
        self.device_backend_map: dict[str, _backends.Backend] = {}
        if ":" not in backend:
            if backend.lower() == _backends.Backend.UNDEFINED:
                devices = {"cpu": "gloo"}
            else:
                devices = dict.fromkeys(_backends.Backend.backend_capability.get(backend.lower(), ["cpu"]), backend)
        else:
            devices = {}
            for part in backend.lower().split(","):
                device, _, name = part.partition(":")
                if not device or not name:
                    raise ValueError(
                        f"The custom backend string argument is invalid: {backend}. It must be of the form "
                        "'<device_type1>:<backend1>,<device_type2>:<backend2>...', e.g. 'cpu:gloo,cuda:nccl'"
                    )
                if device in devices:
                    raise ValueError(f"Duplicate device type {device} in backend string: {backend}.")
                devices[device] = name
        self.device_backend_map = {device: _backends.Backend(name) for device, name in devices.items()}

    def __repr__(self) -> str:
        return ",".join(f"{device}:{name}" for device, name in self.device_backend_map.items())

    def get_device_backend_map(self) -> dict[str, _backends.Backend]:
        """The backend of each device."""
        return self.device_backend_map


def get_backend_config(group: Any = None) -> str:
    """Return the devices that a group's backend serves, each with its name.

    Example::

        >>> oneflow.testing.run_ranks(2, lambda: oneflow.distributed.get_backend_config())
        ['cpu:fake', 'cpu:fake']
    """
    return str(BackendConfig(get_backend(group)))


def get_default_backend_for_device(device: Any) -> str:
    """Return the name of the backend for a device's tensors.

    Raises:
        ValueError: there is none.

    Example::

        >>> oneflow.distributed.get_default_backend_for_device("cpu")
        'gloo'
    """
    kind = getattr(device, "type", str(device)).partition(":")[0]
    if kind not in _backends.Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {device}")
    return _backends.Backend.default_device_backend_map[kind]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return this rank's number on its machine, as the launcher says in ``LOCAL_RANK``.

    Raises:
        RuntimeError: it says nothing and there is no ``fallback_rank``.

    Example::

        >>> oneflow.distributed.get_node_local_rank(fallback_rank=0)
        0
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if _oneflow._launch()[1] > 1:
        return _oneflow._launch()[2]
    if fallback_rank is None:
        raise RuntimeError(
            "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to "
            "work, assuming you are not running in a multi-device context and want the code to run locally instead."
        )
    return int(fallback_rank)


def get_pg_count() -> int:
    """Return how many groups this process has made and not destroyed, the job's own among them.

    Example::

        >>> oneflow.distributed.get_pg_count()
        0
    """
    return len(_made)


def is_torchelastic_launched() -> bool:
    """Whether torchrun, or this package's launcher, has started this process.

    Example::

        >>> oneflow.distributed.is_torchelastic_launched()
        False
    """
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_ucc_available() -> bool:
    """False: there is no backend over UCC.

    Example::

        >>> oneflow.distributed.is_ucc_available()
        False
    """
    return False


def is_xccl_available() -> bool:
    """False: there is no backend over XCCL.

    Example::

        >>> oneflow.distributed.is_xccl_available()
        False
    """
    return False


def set_timeout(timeout: datetime.timedelta | float, group: Any = None) -> None:
    """Change how long a group's collectives wait, from now on.

    Args:
        timeout: a number counts seconds.
        group: that of all ranks by default.

    Example::

        >>> def rank():
        ...     oneflow.distributed.set_timeout(5.0)
        ...     return oneflow.distributed.group.WORLD.timeout()
        >>> oneflow.testing.run_ranks(2, rank)
        [5.0, 5.0]
    """
    _group(group, "set_timeout").set_timeout(_seconds(timeout) or 0.0)


def supports_complex(reduceOp: Any) -> bool:
    """Whether a reduction is defined for complex numbers: sums, averages and products are.

    Example::

        >>> oneflow.distributed.supports_complex(oneflow.distributed.ReduceOp.MAX)
        False
    """
    return str(reduceOp) in ("sum", "avg", "product")


def _rank_not_in_group(group: Any) -> bool:
    return isinstance(group, int) and group == -100


def _all_gather_base(output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False) -> Any:
    """An older name of ``all_gather_into_tensor``."""
    from oneflow import distributed

    return distributed.all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


def _reduce_scatter_base(
    output: Tensor, input: Tensor, op: Any = "sum", group: Any = None, async_op: bool = False
) -> Any:
    """An older name of ``reduce_scatter_tensor``."""
    from oneflow import distributed

    return distributed.reduce_scatter_tensor(output, input, op, group, async_op)
