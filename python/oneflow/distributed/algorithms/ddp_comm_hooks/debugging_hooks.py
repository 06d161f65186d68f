"""A hook that communicates nothing, to measure what communication costs."""

from __future__ import annotations

from typing import Any

from oneflow.futures import Future

__all__ = ["noop_hook"]


def noop_hook(_: Any, bucket: Any) -> Future:
    """Leave to each rank its own gradients.

    Example::

        >>> from oneflow.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
        >>> model.register_comm_hook(None, noop_hook)
    """
    done: Future = Future()
    done.set_result(bucket.buffer())
    return done
