"""``ProcessGroupNCCL``: a group made by hand for tensors of GPUs, under the name of PyTorch's class."""

from __future__ import annotations

import datetime
from typing import Any

from oneflow import _oneflow
from oneflow.distributed import _backends
from oneflow.distributed._groups import _seconds
from oneflow.distributed._process_group_gloo import _Made
from oneflow.distributed._stores import Store

__all__ = ["ProcessGroupNCCL"]


class _Options(_backends.Options):
    """``_timeout`` of every operation, ten minutes by default.

    ``is_high_priority_stream`` changes nothing: communication runs on a stream of high priority in any case.
    """

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        super().__init__("nccl", datetime.timedelta(minutes=10))
        self.is_high_priority_stream = is_high_priority_stream
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""


class ProcessGroupNCCL(metaclass=_Made):
    """A group for tensors of GPUs whose ranks meet in a store, beside the job's groups.

    All ``size`` ranks make it; the call returns once all have come. A rank uses the GPU on which its first tensor lies.
    Beside NCCL the ranks are connected as those of :class:`ProcessGroupGloo` are, which moves tensors of the CPU and
    says why a rank has gone.

    Args:
        store: a :class:`TCPStore`, :class:`FileStore` or :class:`HashStore`, or a :class:`PrefixStore` of one.
        rank: this process's number in the group.
        size: the number of ranks.
        timeout: of every operation, a ``datetime.timedelta`` or seconds; ten minutes by default. Or
            ``ProcessGroupNCCL.Options()`` with ``_timeout``, which :func:`new_group` takes as ``pg_options`` too.

    Raises:
        RuntimeError: there is no GPU or no NCCL, or not all ranks came within the timeout.
        ValueError: ``rank`` is not below ``size``.
        TypeError: the store is none of this package.

    Example::

        >>> import oneflow.distributed as dist
        >>> dist.ProcessGroupNCCL.Options()._timeout.total_seconds()
        600.0
        >>> if dist.is_nccl_available():
        ...     group = dist.ProcessGroupNCCL(dist.HashStore(), 0, 1)
        ...     assert group.allreduce(oneflow.ones(2, device="cuda")).wait()
        ...     group.shutdown()
    """

    Options = _Options

    def __init_subclass__(cls) -> None:
        raise TypeError("ProcessGroupNCCL makes compiled groups; derive from ProcessGroup")

    def __new__(cls, store: Store, rank: int, size: int, timeout: Any = None) -> Any:
        name = "ProcessGroupNCCL"
        if not isinstance(store, Store) or not isinstance(store._store, _oneflow._Store):
            raise TypeError(f"{name}: ranks meet in a TCPStore, FileStore or HashStore, got {type(store).__name__}")
        if rank < 0 or size < 1:
            raise ValueError(f"{name}: rank {rank} of {size} ranks")
        reason = _oneflow._nccl_unavailable_reason()
        if reason is not None:
            raise RuntimeError(f"{name} is only supported with GPUs and NCCL: {reason}")
        options = timeout if isinstance(timeout, _backends.Options) else _Options()
        seconds = _seconds(options._timeout if timeout is None or timeout is options else timeout)
        return _oneflow._group_over_store(store._store, rank, size, seconds, None)
