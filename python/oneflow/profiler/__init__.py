"""Where time and memory go: recordings of ops, backward, optimizer steps, graphs and loading.

Example::

    >>> model = oneflow.nn.Linear(8, 8)
    >>> with oneflow.profiler.profile(record_shapes=True) as prof:
    ...     with oneflow.profiler.record_function("forward"):
    ...         loss = model(oneflow.ones(2, 8)).sum()
    ...     loss.backward()
    >>> prof.key_averages()[0].key
    'forward'
"""

from __future__ import annotations

from oneflow._oneflow import _profiler_on
from oneflow.profiler._events import EventList, FunctionEvent, FunctionEventAvg
from oneflow.profiler._profile import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)


def kineto_available() -> bool:
    """Return whether :class:`profile` can record: always.

    Example::

        >>> oneflow.profiler.kineto_available()
        True
    """
    return True


def is_profiler_enabled() -> bool:
    """Return whether a profiler is recording now.

    Example::

        >>> oneflow.profiler.is_profiler_enabled()
        False
    """
    return _profiler_on()


__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "ProfilerAction",
    "ProfilerActivity",
    "is_profiler_enabled",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
