"""Calls of functions in other processes: PyTorch's ``torch.distributed.rpc``.

Processes become workers with :func:`init_rpc`. A call copies its arguments to a worker and its result back
(:func:`rpc_sync`, :func:`rpc_async`), or leaves the result there and gives a reference to it (:func:`remote`,
:class:`RRef`). Gradients through calls are those of :mod:`oneflow.distributed.autograd`, updates of parameters on other
workers those of :class:`oneflow.distributed.optim.DistributedOptimizer`.
"""

from __future__ import annotations

from oneflow.distributed.rpc import api, backend_registry, constants, functions, options
from oneflow.distributed.rpc.api import (
    RRef,
    WorkerInfo,
    _get_current_rpc_agent,
    _is_current_rpc_agent_set,
    _set_rpc_timeout,
    _wait_all,
    get_rpc_timeout,
    get_worker_info,
    init_rpc,
    remote,
    rpc_async,
    rpc_sync,
    shutdown,
)
from oneflow.distributed.rpc.backend_registry import BackendType, backend_registered
from oneflow.distributed.rpc.options import RpcBackendOptions, TensorPipeRpcBackendOptions

# References that calls return are of this name in PyTorch.
PyRRef = RRef

__all__ = [
    "BackendType",
    "PyRRef",
    "RRef",
    "RpcBackendOptions",
    "TensorPipeRpcBackendOptions",
    "WorkerInfo",
    "api",
    "backend_registered",
    "backend_registry",
    "constants",
    "functions",
    "get_rpc_timeout",
    "get_worker_info",
    "init_rpc",
    "is_available",
    "options",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]


def is_available() -> bool:
    """Whether functions can be called in other processes: always.

    Example::

        >>> oneflow.distributed.rpc.is_available()
        True
    """
    return True
