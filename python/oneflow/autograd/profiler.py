"""The profiler under its older name and arguments. :mod:`oneflow.profiler` is the one to use."""

from __future__ import annotations

from typing import Any

from oneflow.profiler import EventList, FunctionEvent, FunctionEventAvg, record_function
from oneflow.profiler import kineto_available as kineto_available
from oneflow.profiler._profile import profile as _profile


class profile(_profile):
    """Record what a program does, from ``with`` to its end.

    Args:
        enabled: False: record nothing.
        use_cuda: accepted; work queued on a device is seen as the host queues it.
        use_device: as ``use_cuda``.
        record_shapes: keep the sizes of inputs.
        with_flops: keep the number of operations that each op declares.
        profile_memory: keep what is allocated and freed.
        with_stack: keep the program's lines.
        with_modules: make a region of every module's call.

    Example::

        >>> with oneflow.autograd.profiler.profile() as prof:
        ...     y = oneflow.ones(2) + 1
        >>> [event.name for event in prof.function_events]
        ['ones', 'add']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
    ) -> None:
        super().__init__(
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            acc_events=acc_events,
        )
        self.enabled = enabled

    def start(self) -> None:
        """Begin to record, if enabled."""
        if self.enabled:
            super().start()

    @property
    def function_events(self) -> EventList:
        """Everything recorded, in the order in which it began."""
        return self.events()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, none counted twice."""
        return self.events().self_cpu_time_total

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """Return the events as a table; see :meth:`oneflow.profiler.EventList.table`."""
        return self.events().table(sort_by, row_limit, **options)

    def total_average(self) -> FunctionEventAvg:
        """Add up all events."""
        return self.events().total_average()

    def __str__(self) -> str:
        return self.table()


class emit_nvtx:
    """Mark every op for CUDA's own profilers: not supported.

    Raises:
        RuntimeError: always. Record with :class:`oneflow.profiler.profile`.

    Example::

        >>> oneflow.autograd.profiler.emit_nvtx(enabled=False).enabled
        False
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        if enabled:
            raise RuntimeError(
                "emit_nvtx(): NVTX needs CUDA's tools extension, which oneflow does not load: "
                "record with oneflow.profiler.profile and export_chrome_trace"
            )

    def __enter__(self) -> emit_nvtx:
        return self

    def __exit__(self, *exc: object) -> None:
        return None


class emit_itt(emit_nvtx):
    """Mark every op for VTune: not supported.

    Raises:
        RuntimeError: always. Record with :class:`oneflow.profiler.profile`.

    Example::

        >>> oneflow.autograd.profiler.emit_itt(enabled=False).enabled
        False
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        if enabled:
            raise RuntimeError("emit_itt(): ITT is not supported: record with oneflow.profiler.profile")
        super().__init__(False, record_shapes)


__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "emit_itt",
    "emit_nvtx",
    "kineto_available",
    "profile",
    "record_function",
]
