"""Numbers that programs of elastic training give to a handler of theirs: PyTorch's ``elastic.metrics``."""

from __future__ import annotations

import abc
import functools
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

__all__ = [
    "ConsoleMetricHandler",
    "MetricData",
    "MetricHandler",
    "MetricStream",
    "MetricsConfig",
    "NullMetricHandler",
    "configure",
    "getStream",
    "get_elapsed_time_ms",
    "prof",
    "profile",
    "publish_metric",
    "put_metric",
]

F = TypeVar("F", bound=Callable[..., Any])


class MetricData(NamedTuple):
    """One number: when it was given, to which group, its name and value.

    Example::

        >>> from oneflow.distributed.elastic.metrics import MetricData
        >>> MetricData(0.0, "train", "loss", 1).name
        'loss'
    """

    timestamp: float
    group_name: str
    name: str
    value: Any


class MetricsConfig:
    """Settings for handlers of a program, as a dictionary of texts.

    Example::

        >>> from oneflow.distributed.elastic.metrics import MetricsConfig
        >>> MetricsConfig().params
        {}
    """

    def __init__(self, params: dict[str, str] | None = None) -> None:
        self.params = {} if params is None else params


class MetricHandler(abc.ABC):
    """Takes numbers; see :func:`configure`.

    Example::

        >>> from oneflow.distributed.elastic import metrics
        >>> class Kept(metrics.MetricHandler):
        ...     found = []
        ...     def emit(self, metric_data): self.found.append((metric_data.name, metric_data.value))
        >>> metrics.configure(Kept(), "example")
        >>> metrics.put_metric("steps", 3, "example")
        >>> Kept.found
        [('steps', 3)]
    """

    @abc.abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Take one number."""


class ConsoleMetricHandler(MetricHandler):
    """Prints numbers.

    Example::

        >>> from oneflow.distributed.elastic.metrics import ConsoleMetricHandler, MetricData
        >>> ConsoleMetricHandler().emit(MetricData(0, "train", "loss", 1))
        [0][train]: loss=1
    """

    def emit(self, metric_data: MetricData) -> None:
        """Print one number."""
        print(  # noqa: T201
            f"[{metric_data.timestamp}][{metric_data.group_name}]: {metric_data.name}={metric_data.value}"
        )


class NullMetricHandler(MetricHandler):
    """Drops numbers: what is done until somebody calls :func:`configure`.

    Example::

        >>> from oneflow.distributed.elastic.metrics import MetricData, NullMetricHandler
        >>> NullMetricHandler().emit(MetricData(0, "train", "loss", 1))
    """

    def emit(self, metric_data: MetricData) -> None:
        """Drop one number."""


class MetricStream:
    """The numbers of one group.

    Example::

        >>> from oneflow.distributed.elastic.metrics import ConsoleMetricHandler, MetricStream
        >>> MetricStream("train", ConsoleMetricHandler()).group_name
        'train'
    """

    def __init__(self, group_name: str, handler: MetricHandler) -> None:
        self.group_name, self.handler = group_name, handler

    def add_value(self, metric_name: str, metric_value: Any) -> None:
        """Give one number to the handler."""
        self.handler.emit(MetricData(time.time(), self.group_name, metric_name, metric_value))


_metrics_map: dict[str, MetricHandler] = {}
_default_metrics_handler: MetricHandler = NullMetricHandler()


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Give the numbers of a group to a handler; with None those of all groups that have none of their own.

    Example::

        >>> from oneflow.distributed.elastic import metrics
        >>> metrics.configure(metrics.NullMetricHandler())
    """
    global _default_metrics_handler
    if group is None:
        _default_metrics_handler = handler
    else:
        _metrics_map[group] = handler


def getStream(group: str) -> MetricStream:
    """Return the stream of a group, with the handler that it has now.

    Example::

        >>> from oneflow.distributed.elastic import metrics
        >>> metrics.getStream("train").group_name
        'train'
    """
    return MetricStream(group, _metrics_map.get(group, _default_metrics_handler))


def put_metric(metric_name: str, metric_value: Any, metric_group: str = "torchelastic") -> None:
    """Give a number to the handler of a group.

    Example::

        >>> from oneflow.distributed.elastic import metrics
        >>> metrics.put_metric("steps", 3)
    """
    getStream(metric_group).add_value(metric_name, metric_value)


def publish_metric(metric_group: str, metric_name: str, metric_value: Any) -> None:
    """The older form of :func:`put_metric`.

    Example::

        >>> import warnings
        >>> from oneflow.distributed.elastic import metrics
        >>> with warnings.catch_warnings(action="ignore"):
        ...     metrics.publish_metric("train", "steps", 3)
    """
    warnings.warn("publish_metric is deprecated, use put_metric", FutureWarning, stacklevel=2)
    put_metric(metric_name, metric_value, metric_group)


def get_elapsed_time_ms(start_time_in_seconds: float) -> int:
    """Return the milliseconds since a time of ``time.time()``.

    Example::

        >>> import time
        >>> from oneflow.distributed.elastic import metrics
        >>> metrics.get_elapsed_time_ms(time.time()) >= 0
        True
    """
    return int((time.time() - start_time_in_seconds) * 1000)


def prof(fn: Any = None, group: str = "torchelastic") -> Any:
    """Give the outcome of each call of a function, and its duration, to the handler of a group.

    Example::

        >>> from oneflow.distributed.elastic import metrics
        >>> @metrics.prof(group="train")
        ... def step():
        ...     return 1
        >>> step()
        1
    """

    def wrap(f: F) -> F:
        name = f.__qualname__
        if "." not in name and f.__module__:
            name = f"{f.__module__.rpartition('.')[2]}.{name}"
        return _measured(f, name, group)

    return wrap if fn is None else wrap(fn)


def profile(group: str | None = None) -> Any:
    """The older form of :func:`prof`, whose names lack the module.

    Example::

        >>> import warnings
        >>> from oneflow.distributed.elastic import metrics
        >>> with warnings.catch_warnings(action="ignore"):
        ...     step = metrics.profile("train")(lambda: 1)
        >>> step()
        1
    """
    warnings.warn("profile is deprecated, use prof", FutureWarning, stacklevel=2)
    return lambda f: _measured(f, f.__name__, group or "torchelastic")


def _measured(f: F, name: str, group: str) -> F:
    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        start, outcome = time.time(), "failure"
        try:
            result = f(*args, **kwargs)
            outcome = "success"
            return result
        finally:
            put_metric(f"{name}.{outcome}", 1, group)
            put_metric(f"{name}.duration.ms", get_elapsed_time_ms(start), group)

    return call  # type: ignore[return-value]
