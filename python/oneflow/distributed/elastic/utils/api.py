"""Variables and words of launchers: PyTorch's ``elastic.utils.api``."""

from __future__ import annotations

import os
import socket
from string import Template

__all__ = ["get_env_variable_or_raise", "get_socket_with_port", "macros"]


def get_env_variable_or_raise(env_name: str) -> str:
    """Return a variable of the environment.

    Raises:
        ValueError: it is not set.

    Example::

        >>> from oneflow.distributed.elastic.utils.api import get_env_variable_or_raise
        >>> len(get_env_variable_or_raise("PATH")) > 0
        True
    """
    value = os.environ.get(env_name)
    if value is None:
        raise ValueError(f"Environment variable {env_name} expected, but not set")
    return value


def get_socket_with_port() -> socket.socket:
    """Return a listening socket on a free port of this machine's loopback interface; the caller closes it.

    Example::

        >>> from oneflow.distributed.elastic.utils.api import get_socket_with_port
        >>> with get_socket_with_port() as listening:
        ...     listening.getsockname()[1] > 0
        True
    """
    failures = []
    for family, kind, protocol, _, _ in socket.getaddrinfo("localhost", None, type=socket.SOCK_STREAM):
        made = socket.socket(family, kind, protocol)
        try:
            made.bind(("localhost", 0))
            made.listen(0)
        except OSError as error:
            made.close()
            failures.append(str(error))
            continue
        return made
    raise RuntimeError(f"get_socket_with_port: no address of localhost takes a socket: {'; '.join(failures)}")


class macros:
    """Words in the arguments of a worker that become its numbers.

    Example::

        >>> from oneflow.distributed.elastic.utils.api import macros
        >>> macros.substitute(["--log", f"out/{macros.local_rank}"], "3")
        ['--log', 'out/3']
    """

    local_rank = "${local_rank}"

    @staticmethod
    def substitute(args: list[object], local_rank: str) -> list[object]:
        """Arguments with the number of a worker on its machine; what is no text stays."""
        found = []
        for arg in args:
            found.append(Template(arg).safe_substitute(local_rank=local_rank) if isinstance(arg, str) else arg)
        return found
