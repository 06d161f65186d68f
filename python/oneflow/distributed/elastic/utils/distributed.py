"""Stores and ports for processes that are no ranks yet: PyTorch's ``elastic.utils.distributed``."""

from __future__ import annotations

from datetime import timedelta

from oneflow.distributed import TCPStore
from oneflow.distributed.elastic.utils.api import get_socket_with_port

__all__ = ["create_c10d_store", "get_free_port", "get_socket_with_port"]


def create_c10d_store(
    is_server: bool,
    server_addr: str,
    server_port: int = -1,
    world_size: int = 1,
    timeout: float = 60 * 10,
    wait_for_workers: bool = True,
    retries: int = 3,
    use_libuv: bool | None = None,
) -> TCPStore:
    """Return a store that this process serves, or a client of one.

    Args:
        server_port: a free one for -1, which a server alone may choose.
        world_size: the processes that a server waits for with ``wait_for_workers``, in ``timeout`` seconds.
        retries: how often a server takes another free port where one was taken in between.
        use_libuv: accepted: there is one server.

    Raises:
        ValueError: a client without a port.
        DistNetworkError: the port is taken, or nobody answers.

    Example::

        >>> from oneflow.distributed.elastic.utils.distributed import create_c10d_store
        >>> store = create_c10d_store(is_server=True, server_addr="localhost")
        >>> store.set("key", "value")
    """
    if server_port == -1 and not is_server:
        raise ValueError(f"create_c10d_store: a client of {server_addr} needs server_port")
    attempt = 0
    while True:
        attempt += 1
        try:
            return TCPStore(
                server_addr,
                get_free_port() if server_port == -1 else server_port,
                world_size,
                is_server,
                timedelta(seconds=timeout),
                wait_for_workers=wait_for_workers,
            )
        except RuntimeError as error:
            if server_port != -1 or attempt > retries or "in use" not in str(error):
                raise


def get_free_port() -> int:
    """Return the number of a port that is free now.

    Example::

        >>> from oneflow.distributed.elastic.utils.distributed import get_free_port
        >>> get_free_port() > 0
        True
    """
    with get_socket_with_port() as probe:
        return int(probe.getsockname()[1])
