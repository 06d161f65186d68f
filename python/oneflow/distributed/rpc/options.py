"""How a worker is started: threads, timeouts, the meeting point, and which GPUs tensors go to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import oneflow
from oneflow.distributed.rpc import constants

__all__ = ["RpcBackendOptions", "TensorPipeRpcBackendOptions"]


class RpcBackendOptions:
    """What every kind of worker has: a default timeout and a meeting point.

    Example::

        >>> from oneflow.distributed.rpc import RpcBackendOptions
        >>> RpcBackendOptions(rpc_timeout=5).init_method
        'env://'
    """

    def __init__(
        self,
        rpc_timeout: float = constants.DEFAULT_RPC_TIMEOUT_SEC,
        init_method: str = constants.DEFAULT_INIT_METHOD,
    ) -> None:
        self.rpc_timeout, self.init_method = float(rpc_timeout), init_method


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """Options of :func:`~oneflow.distributed.rpc.init_rpc`, under PyTorch's name.

    Args:
        num_worker_threads: threads that run other workers' calls.
        rpc_timeout: seconds that a call may take where it says nothing itself; 0 for no limit.
        init_method: where workers meet: ``"env://"``, ``"tcp://host:port"`` or ``"file:///path"``.
        device_maps: by a callee's name, where tensors on this worker's GPUs arrive there; results come back the other
            way. A tensor on a GPU without an entry cannot be sent.
        devices: accepted, if they are GPUs; those of the maps are used.

    Raises:
        ValueError: two devices are mapped to one, ``devices`` has others than GPUs, or a number is not positive.

    Example::

        >>> from oneflow.distributed.rpc import TensorPipeRpcBackendOptions
        >>> options = TensorPipeRpcBackendOptions(num_worker_threads=4, rpc_timeout=20)
        >>> options.set_device_map("worker1", {"cuda:0": "cuda:1"})
        >>> options.device_maps["worker1"]
        {device(type='cuda', index=0): device(type='cuda', index=1)}
    """

    def __init__(
        self,
        *,
        num_worker_threads: int = constants.DEFAULT_NUM_WORKER_THREADS,
        rpc_timeout: float = constants.DEFAULT_RPC_TIMEOUT_SEC,
        init_method: str = constants.DEFAULT_INIT_METHOD,
        device_maps: Mapping[str, Mapping[Any, Any]] | None = None,
        devices: Sequence[Any] | None = None,
        _transports: list[str] | None = None,
        _channels: list[str] | None = None,
    ) -> None:
        super().__init__(rpc_timeout, init_method)
        if num_worker_threads < 1:
            raise ValueError(f"num_worker_threads must be positive, got {num_worker_threads}")
        if self.rpc_timeout < 0:
            raise ValueError(f"RPC Timeout must be non-negative, got {rpc_timeout}")
        if _transports or _channels:
            raise NotImplementedError(
                "TensorPipeRpcBackendOptions: workers use this package's sockets and shared memory"
            )
        self.num_worker_threads = num_worker_threads
        self.device_maps = {name: _device_map(pairs) for name, pairs in (device_maps or {}).items()}
        self.devices = _gpus(devices or [])

    def set_device_map(self, to: str, device_map: Mapping[Any, Any]) -> None:
        """Add to the map for one callee.

        Raises:
            ValueError: a device has another place already, or two would have one.
        """
        known, added = self.device_maps.get(to, {}), _device_map(device_map)
        for source, target in added.items():
            if known.get(source, target) != target:
                raise ValueError(
                    f"`set_device_map` only supports 1-to-1 mapping, trying to map {source} to {target} and "
                    f"{known[source]}"
                )
        self.device_maps[to] = _device_map({**known, **added})

    def set_devices(self, devices: Sequence[Any]) -> None:
        """Accepted, if all are GPUs."""
        self.devices = _gpus(devices)


def _device_map(pairs: Mapping[Any, Any]) -> dict[oneflow.device, oneflow.device]:
    found: dict[oneflow.device, oneflow.device] = {}
    origin: dict[oneflow.device, oneflow.device] = {}
    for source, target in pairs.items():
        a, b = oneflow.device(source), oneflow.device(target)
        if b in origin:
            raise ValueError(f"`device_map` only supports 1-to-1 mapping, trying to map {a} and {origin[b]} to {b}")
        found[a], origin[b] = b, a
    return found


def _gpus(devices: Sequence[Any]) -> list[oneflow.device]:
    found = [oneflow.device(device) for device in devices]
    for device in found:
        if device.type != "cuda":
            raise ValueError(f"`set_devices` expect a list of CUDA devices, but got device type {device.type}.")
    return found
