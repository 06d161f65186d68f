"""The worker that this process is, if it is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oneflow.distributed.rpc._agent import Agent

_current: Agent | None = None


def running() -> Agent | None:
    """The worker, or ``None``."""
    return _current


def agent() -> Agent:
    """The worker.

    Raises:
        RuntimeError: this process is none.
    """
    if _current is None:
        raise RuntimeError("RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.")
    return _current


def become(agent: Agent | None) -> None:
    """Make this process a worker, or none."""
    global _current
    _current = agent
