"""The names of OneFlow's compiled module that programs and its own libraries use; the others are not provided."""

from __future__ import annotations

from types import SimpleNamespace

import oneflow
from oneflow import Tensor, distributed

__all__ = [
    "CudaSynchronize",
    "GetCUDAMemoryUsed",
    "Tensor",
    "TensorTuple",
    "cpu_broadcast",
    "eager",
    "exception",
    "flags",
]


# Arguments of modules' hooks.
TensorTuple = tuple


def cpu_broadcast(data: bytes | None, src: int) -> bytes:
    """Return the bytes of rank ``src``, on every rank."""
    held = [data]
    if oneflow.env.get_world_size() > 1:
        distributed.broadcast_object_list(held, src)
    (given,) = held
    if given is None:
        raise TypeError(f"cpu_broadcast: rank {src} gave None, expected bytes")
    return given


def CudaSynchronize(device: int) -> None:
    """Wait until a GPU has finished its work."""
    oneflow.cuda.synchronize(device)


def GetCUDAMemoryUsed() -> float:
    """Return the memory in use on the current GPU, in MiB."""
    free, total = oneflow.cuda.mem_get_info()
    return (total - free) / 2**20


def _wait() -> None:
    """Wait until the devices of this process have finished their work; ops on the CPU finish before they return."""
    if oneflow.cuda.is_available():
        oneflow.cuda.synchronize()


def _wait_for_all() -> None:
    _wait()
    if oneflow.env.get_world_size() > 1:
        oneflow.comm.barrier()


eager = SimpleNamespace(Sync=_wait, ClusterSync=_wait_for_all, multi_client=SimpleNamespace(Sync=_wait_for_all))
exception = SimpleNamespace(Exception=RuntimeError)
flags = SimpleNamespace(
    with_cuda=lambda: oneflow.cuda.is_available(),
    # No version of CUDA is built in: the driver's is what counts.
    cuda_version=lambda: 0,
)
