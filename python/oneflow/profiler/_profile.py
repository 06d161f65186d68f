"""The profiler: what is recorded, and when."""

from __future__ import annotations

import functools
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, TypeVar

from oneflow import _oneflow
from oneflow.profiler import _export
from oneflow.profiler._events import EventList, FunctionEvent, gather
from oneflow.profiler._module_regions import ModuleRegions

F = TypeVar("F", bound=Callable[..., Any])

# The package's own frames are left out of stacks; a forked child does not record for its parent.
_oneflow._profiler_package(os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep)
os.register_at_fork(after_in_child=_oneflow._profiler_forget)


class ProfilerActivity(Enum):
    """Activities to record. CUDA, XPU and the others are accepted: the host's part of their work is recorded.

    Example::

        >>> oneflow.profiler.ProfilerActivity.CPU.name
        'CPU'
    """

    CPU = 0
    XPU = 1
    CUDA = 2
    MTIA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """The action of a step, as :func:`schedule` returns it.

    Example::

        >>> [action.name for action in oneflow.profiler.ProfilerAction]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE']
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """Return the activities whose own time is measured.

    Example::

        >>> oneflow.profiler.supported_activities()
        {<ProfilerActivity.CPU: 0>}
    """
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return a plan of steps: skip ``skip_first``, then wait, warm up, record, and again.

    Args:
        wait: steps of a cycle that are not looked at.
        warmup: steps that run before those that count.
        active: steps that are recorded.
        repeat: number of cycles; 0: until the end.
        skip_first: steps before the first cycle.
        skip_first_wait: not 0: the first cycle has no ``wait``.

    Raises:
        ValueError: a number is negative, or ``active`` is not positive.

    Example::

        >>> plan = oneflow.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
        >>> [plan(step).name for step in range(5)]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise ValueError("schedule(): numbers of steps must not be negative, and active must be positive")

    def plan(step: int) -> ProfilerAction:
        if step < 0:
            raise ValueError(f"schedule(): step must not be negative, not {step}")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle = wait + warmup + active
        if repeat and step >= repeat * cycle:
            return ProfilerAction.NONE
        at = step % cycle
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return plan


def _always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """Return a handler for ``on_trace_ready`` that writes each trace into a directory, where TensorBoard finds it.

    Args:
        dir_name: created if it is missing.
        worker_name: the first part of the files' names. Default: host and process.
        use_gzip: compress the files.

    Raises:
        RuntimeError: the directory cannot be created.

    Example::

        >>> with oneflow.profiler.profile(on_trace_ready=oneflow.profiler.tensorboard_trace_handler("logs")):
        ...     y = oneflow.ones(2).exp()
        >>> import os
        >>> len(os.listdir("logs"))
        1
    """

    def handler(prof: Any) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError("Can't create directory: " + dir_name) from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        end = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}{end}"))

    return handler


class record_function:
    """Name a region of the program, as a context manager or a decorator.

    Args:
        name: what the region is called in tables and traces.
        args: text shown next to it in the trace; accepted and not recorded.

    Example::

        >>> with oneflow.profiler.profile() as prof:
        ...     with oneflow.profiler.record_function("double"):
        ...         y = oneflow.ones(2) * 2
        >>> [(event.name, event.cpu_parent and event.cpu_parent.name) for event in prof.events()]
        [('double', None), ('ones', 'double'), ('mul', 'double')]
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._token: int | None = None

    def __enter__(self) -> record_function:
        self._token = _oneflow._span_begin(self.name)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._token is not None:
            _oneflow._span_end(self._token)
            self._token = None

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]


class _NumberedModules(ModuleRegions):
    """Regions named after the class and a number among its modules: "nn.Module: Linear_0"."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[str] = Counter()

    def _learn(self, module: Any) -> None:
        kind = type(module).__name__
        self._names[id(module)] = f"nn.Module: {kind}_{self._counts[kind]}"
        self._counts[kind] += 1


class profile:
    """Record what a program does: ops, backward, optimizer steps, graphs, loading of data, memory.

    All threads are seen. Without an open profiler recording costs nothing that can be measured.

    Args:
        activities: :class:`ProfilerActivity` members. Work that is queued on a device is seen as the host queues it.
        schedule: which steps to record, from :func:`schedule`; :meth:`step` marks the end of one. Default: all.
        on_trace_ready: called with this object whenever a recording is complete.
        record_shapes: keep the sizes and dtypes of inputs.
        profile_memory: keep what is allocated and freed.
        with_stack: keep the program's lines; the package's own are left out.
        with_flops: keep the floating-point operations that each op declares. An op composed of other ops counts them
            too, and so do those ops in their own rows.
        with_modules: make a region of every module's call.
        experimental_config: None.
        execution_trace_observer: None.
        acc_events: keep the events of all cycles of the schedule instead of the last one's.

    Raises:
        NotImplementedError: an observer or an experimental configuration is given.

    Example::

        >>> model = oneflow.nn.Linear(3, 2)
        >>> with oneflow.profiler.profile(record_shapes=True) as prof:
        ...     model(oneflow.ones(4, 3)).sum().backward()
        >>> [(a.key, a.count) for a in prof.key_averages() if "Backward" in a.key]
        [('SumBackward0', 1), ('LinearBackward0', 1)]
        >>> print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=3))  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        if execution_trace_observer is not None or experimental_config is not None:
            raise NotImplementedError(
                "profile(): experimental_config and execution_trace_observer are not supported: leave them out"
            )
        self.activities = set(supported_activities() if activities is None else activities)
        if not all(isinstance(activity, ProfilerActivity) for activity in self.activities):
            raise TypeError("profile(): activities must be members of ProfilerActivity")
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        self.schedule = schedule or _always
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.acc_events = acc_events
        self._trace_id = custom_trace_id_callback
        self.record_steps = schedule is not None
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._session: int | None = None
        self._modules: _NumberedModules | None = None
        self._step_region: record_function | None = None
        self._metadata: dict[str, str] = {}
        self._clear()

    def _clear(self) -> None:
        self._events: list[FunctionEvent] = []
        self._memory: list[_export.MemoryEvent] = []

    # ---- recording

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin: with the schedule's first step, or at once."""
        self._begin_step()

    def stop(self) -> None:
        """End; a recording that is under way becomes ready."""
        self._end_step()
        if self._session is not None:
            self._take()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self.current_action = ProfilerAction.NONE

    def step(self) -> None:
        """Say that the next step of the schedule begins."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        records = self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if self._session is not None and (before is ProfilerAction.RECORD_AND_SAVE or not records):
            self._take()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self._begin_step()

    def _begin_step(self) -> None:
        if self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            if self._session is None:
                self._open()
            if self.record_steps:
                self._step_region = record_function(f"ProfilerStep#{self.step_num}")
                self._step_region.__enter__()

    def _end_step(self) -> None:
        if self._step_region is not None:
            self._step_region.__exit__()
            self._step_region = None

    def _open(self) -> None:
        if not self.acc_events:
            self._clear()
        self._wall_ns = time.time_ns()
        self._origin: int | None = None
        if self.with_modules:
            self._modules = _NumberedModules()
        self._session = _oneflow._profiler_start(
            shapes=self.record_shapes, stacks=self.with_stack, memory=self.profile_memory, flops=self.with_flops
        )

    def _take(self) -> None:
        """End the session and keep what it saw."""
        assert self._session is not None
        threads = _oneflow._profiler_events(self._session)
        _oneflow._profiler_stop(self._session)
        self._session = None
        if self._modules is not None:
            self._modules.remove()
            self._modules = None
        starts = [raw.start for _, raws in threads for raw in raws[:1]]
        origin = min(starts, default=0)
        self._events += gather(threads, origin)
        self._memory += _export.memory_events(threads, origin)

    # ---- results

    def events(self) -> EventList:
        """Return everything recorded, in the order in which it began."""
        return EventList(self._events, self.profile_memory, self.with_flops)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Add up the events of each name; see :meth:`EventList.key_averages`."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace for chrome://tracing or https://ui.perfetto.dev; compressed if the name ends in ``.gz``."""
        info = {
            "schemaVersion": 1,
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": self._wall_ns if self._events else 0,
            "record_shapes": int(self.record_shapes),
            "profile_memory": int(self.profile_memory),
            "with_stack": int(self.with_stack),
            "with_flops": int(self.with_flops),
            "host_name": socket.gethostname(),
            "trace_id": self._trace_id() if self._trace_id else "",
            **self._metadata,
        }
        _export.chrome_trace(path, info, self._events, self._memory)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks with their microseconds, a line each, as flame graph tools read them; needs ``with_stack``.

        Raises:
            ValueError: ``metric`` is neither ``"self_cpu_time_total"`` nor ``"self_cuda_time_total"``.
        """
        _export.stacks(path, metric, self._events)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write how much memory was in use when, by what it was allocated for; needs ``profile_memory``.

        Args:
            path: ends in ``.html`` (a picture), ``.json`` or ``.json.gz`` (times and bytes of each category),
                ``.raw.json.gz`` (every allocation and release).
            device: for example "cpu" or "cuda:0". Default: "cpu".

        Raises:
            ValueError: another ending, or memory was not recorded.
        """
        if not self.profile_memory:
            raise ValueError("export_memory_timeline(): record with profile_memory=True")
        _export.memory_timeline(path, self._memory, device or "cpu")

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to the traces written from now on."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a value, given as JSON, to the traces written from now on."""
        import json

        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json
