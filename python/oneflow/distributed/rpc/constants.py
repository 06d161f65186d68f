"""Defaults of ``torch.distributed.rpc``."""

from __future__ import annotations

import datetime

__all__: list[str] = []

DEFAULT_RPC_TIMEOUT_SEC: float = 60.0
DEFAULT_INIT_METHOD: str = "env://"
DEFAULT_NUM_WORKER_THREADS: int = 16
# No limit.
DEFAULT_SHUTDOWN_TIMEOUT: float = 0
DEFAULT_PROCESS_GROUP_TIMEOUT = datetime.timedelta(milliseconds=2**31 - 1)
# The time that the worker was started with.
UNSET_RPC_TIMEOUT: float = -1.0
