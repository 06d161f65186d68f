"""The kinds of workers: one, under PyTorch's name."""

from __future__ import annotations

import enum

__all__ = ["BackendType", "backend_registered"]


class BackendType(enum.Enum):
    """``BackendType.TENSORPIPE``: sockets and shared memory of this package.

    Example::

        >>> from oneflow.distributed.rpc import BackendType
        >>> BackendType.TENSORPIPE
        BackendType.TENSORPIPE
    """

    TENSORPIPE = "tensorpipe"

    def __repr__(self) -> str:
        return f"BackendType.{self.name}"


def backend_registered(backend_name: str) -> bool:
    """Return whether there is such a kind of worker.

    Example::

        >>> from oneflow.distributed.rpc.backend_registry import backend_registered
        >>> backend_registered("TENSORPIPE"), backend_registered("GRPC")
        (True, False)
    """
    return backend_name in BackendType.__members__
