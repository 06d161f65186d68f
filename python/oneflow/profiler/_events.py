"""Events, their averages and the table of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_TIMES = ("cpu_time", "cpu_time_total", "self_cpu_time_total")
_DEVICE_TIMES = ("device_time", "device_time_total", "self_device_time_total")
_MEMORY = ("cpu_memory_usage", "self_cpu_memory_usage", "device_memory_usage", "self_device_memory_usage")
SORT_KEYS = (*_TIMES, *_DEVICE_TIMES, *_MEMORY, "count", "flops")


class Interval:
    """A stretch of time, in microseconds since the recording began."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """Return its length in microseconds."""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval(start={self.start:.3f}, end={self.end:.3f})"


class _Figures:
    """The base of an event and an average of events. Times are microseconds, memory is bytes."""

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    cpu_memory_usage: int
    self_cpu_memory_usage: int
    # Work on a device is queued: what is measured is the host's part.
    device_time_total = self_device_time_total = 0.0
    device_memory_usage = self_device_memory_usage = 0
    use_device = None

    @property
    def cpu_time(self) -> float:
        """Microseconds of one call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Microseconds of one call on a device: not measured."""
        return 0.0

    @property
    def cpu_time_str(self) -> str:
        """The time of one call with its unit."""
        return time_text(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        """The time of all calls with its unit."""
        return time_text(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """The time of all calls without that of their parts, with its unit."""
        return time_text(self.self_cpu_time_total)


class FunctionEvent(_Figures):
    """One call of an op, node of a backward, instruction of a graph or named region.

    Example::

        >>> with oneflow.profiler.profile() as prof:
        ...     y = oneflow.ones(2)
        >>> event = prof.events()[0]
        >>> event.name, event.count, event.cpu_time_total > 0
        ('ones', 1, True)
    """

    def __init__(self, raw: Any, id: int, thread: int, origin: int) -> None:
        self.id = id
        self.name = self.key = raw.name
        self.kind = raw.kind
        self.thread = thread
        self.time_range = Interval((raw.start - origin) / 1000, (raw.end - origin) / 1000)
        self.sequence_nr = raw.sequence_nr or -1
        self.is_user_annotation = raw.kind == "user"
        self.input_shapes: list[list[int]] = raw.shapes or []
        self.input_dtypes: list[str] = raw.dtypes or []
        self.stack = [f"{file}({line}): {function}" for file, line, function in raw.stack]
        self.flops = int(raw.flops)
        self.count = 1
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_time_total = self.self_cpu_time_total = (raw.end - raw.start) / 1000
        self.cpu_memory_usage = self.self_cpu_memory_usage = raw.bytes

    def _add_child(self, child: FunctionEvent) -> None:
        child.cpu_parent = self
        self.cpu_children.append(child)
        self.self_cpu_time_total -= child.cpu_time_total

    def ancestors(self) -> Iterable[FunctionEvent]:
        """Iterate over what this is a part of, from the inside out."""
        event = self.cpu_parent
        while event is not None:
            yield event
            event = event.cpu_parent

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} thread={self.thread} cpu_time={self.cpu_time_str} "
            f"cpu_children={[child.id for child in self.cpu_children]} input_shapes={self.input_shapes}>"
        )


class FunctionEventAvg(_Figures):
    """The sum of several events with one key.

    Example::

        >>> with oneflow.profiler.profile() as prof:
        ...     y = oneflow.ones(2).exp().exp()
        >>> [(average.key, average.count) for average in prof.key_averages()]
        [('ones', 1), ('exp', 2)]
    """

    def __init__(self) -> None:
        self.key: str = "Total"
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.flops = 0
        self.input_shapes: list[list[int]] = []
        self.stack: list[str] = []
        self.is_user_annotation = False
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event's figures to these."""
        self.count += other.count
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.flops += other.flops
        return self

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} count={self.count} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}>"
        )


class EventList(list[Any]):
    """Events or averages, with the sums and tables over them.

    Example::

        >>> with oneflow.profiler.profile() as prof:
        ...     y = oneflow.ones(2, 2) @ oneflow.ones(2, 2)
        >>> [event.name for event in prof.events()]
        ['ones', 'ones', 'matmul']
    """

    def __init__(self, events: Iterable[Any] = (), profile_memory: bool = False, with_flops: bool = False) -> None:
        super().__init__(events)
        self._profile_memory = profile_memory
        self._with_flops = with_flops

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, none counted twice."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Add up the events of each name.

        Args:
            group_by_input_shape: separate calls of different input sizes; needs ``record_shapes``.
            group_by_stack_n: separate calls from different places, by this many lines; needs ``with_stack``.
            group_by_overload_name: accepted; overloads of one op have one name here.
        """
        groups: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key: list[Any] = [event.key, event.is_user_annotation]
            if group_by_input_shape:
                key.append(str(event.input_shapes))
            if group_by_stack_n > 0:
                key.append(tuple(event.stack[:group_by_stack_n]))
            group = groups.get(tuple(key))
            if group is None:
                group = groups[tuple(key)] = FunctionEventAvg()
                group.key, group.is_user_annotation = event.key, event.is_user_annotation
                group.input_shapes = event.input_shapes if group_by_input_shape else []
                group.stack = event.stack[:group_by_stack_n] if group_by_stack_n > 0 else []
            group.add(event)
        return EventList(groups.values(), self._profile_memory, self._with_flops)

    def total_average(self) -> FunctionEventAvg:
        """Add up all events under the name "Total"."""
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Return the events as a table.

        Args:
            sort_by: the column to sort by, largest first: ``cpu_time``, ``cpu_time_total``, ``self_cpu_time_total``,
                ``cpu_memory_usage``, ``self_cpu_memory_usage``, ``flops`` or ``count``. Default: order of first call.
            row_limit: how many rows; -1: all.
            max_src_column_width: characters of the column of source lines.
            max_name_column_width: characters of the column of names.
            max_shapes_column_width: characters of the column of input sizes.
            header: a line above the table.
            top_level_events_only: leave out what is part of another event.
            time_unit: ``"s"``, ``"ms"`` or ``"us"`` for all times. Default: the one that fits each.

        Raises:
            ValueError: there is no such column.
        """
        rows = list(self)
        if sort_by is not None:
            key = sort_by.replace("cuda", "device").replace("xpu", "device")
            if key not in SORT_KEYS:
                raise ValueError(f"table(): sort_by must be one of {', '.join(SORT_KEYS)}, not {sort_by!r}")
            rows.sort(key=lambda event: getattr(event, key), reverse=True)
        if top_level_events_only:
            rows = [event for event in rows if event.cpu_parent is None]
        total = self.self_cpu_time_total
        columns = _columns(rows, total, time_unit, self._profile_memory)
        columns[0] = _Column("Name", [_cut(e.key, max_name_column_width) for e in rows], pad=4)
        if any(event.input_shapes for event in rows):
            shapes = [_cut(str(event.input_shapes), max_shapes_column_width) for event in rows]
            columns.append(_Column("Input Shapes", shapes, pad=4))
        sources = any(event.stack for event in rows)
        if sources:
            lines = [_cut(event.stack[0] if event.stack else "", max_src_column_width, left=True) for event in rows]
            columns.append(_Column("Source Location", lines, pad=4))
        if self._with_flops:
            columns.append(_flops_column(rows))
        width = sum(column.width + 2 for column in columns)
        rule = "  ".join("-" * column.width for column in columns) + "  "
        text = []
        if header is not None:
            text += ["=" * width, header]
        if top_level_events_only:
            text += ["=" * width, "This report only display top-level ops statistics"]
        text += [rule, "  ".join(column.head.rjust(column.width) for column in columns) + "  ", rule]
        for i, event in enumerate(rows if row_limit < 0 else rows[:row_limit]):
            text.append("  ".join(column.cells[i].rjust(column.width) for column in columns) + "  ")
            if sources:
                place = next(k for k, column in enumerate(columns) if column.head == "Source Location")
                for line in event.stack[1:]:
                    cells = ["".rjust(column.width) for column in columns]
                    cells[place] = _cut(line, max_src_column_width, left=True).rjust(columns[place].width)
                    text.append("  ".join(cells) + "  ")
        text += [rule, f"Self CPU time total: {time_text(total, time_unit)}", ""]
        return "\n".join(text)

    def __str__(self) -> str:
        return self.table()


class _Column:
    def __init__(self, head: str, cells: list[str], pad: int = 0) -> None:
        self.head = head
        self.cells = cells
        self.width = max(12, len(head), *(len(cell) + pad for cell in cells)) if cells else max(12, len(head))


def _columns(rows: Sequence[Any], total: float, unit: str | None, memory: bool) -> list[_Column]:
    share = [f"{100 * e.self_cpu_time_total / total:.2f}%" if total else "NaN" for e in rows]
    whole = [f"{100 * e.cpu_time_total / total:.2f}%" if total else "NaN" for e in rows]
    columns = [
        _Column("Name", []),
        _Column("Self CPU %", share),
        _Column("Self CPU", [time_text(e.self_cpu_time_total, unit) for e in rows]),
        _Column("CPU total %", whole),
        _Column("CPU total", [time_text(e.cpu_time_total, unit) for e in rows]),
        _Column("CPU time avg", [time_text(e.cpu_time, unit) for e in rows]),
    ]
    if memory:
        columns.append(_Column("CPU Mem", [memory_text(e.cpu_memory_usage) for e in rows]))
        columns.append(_Column("Self CPU Mem", [memory_text(e.self_cpu_memory_usage) for e in rows]))
    columns.append(_Column("# of Calls", [str(e.count) for e in rows]))
    return columns


def _flops_column(rows: Sequence[Any]) -> _Column:
    most = max((event.flops for event in rows), default=0)
    steps = (("FLOPs", 1.0), ("KFLOPs", 1e3), ("MFLOPs", 1e6), ("GFLOPs", 1e9), ("TFLOPs", 1e12), ("PFLOPs", 1e15))
    name, scale = next((step for step in reversed(steps) if most >= step[1]), steps[0])
    return _Column(f"Total {name}", [f"{event.flops / scale:.3f}" if event.flops else "--" for event in rows])


def _cut(text: str, width: int, left: bool = False) -> str:
    if len(text) <= width:
        return text
    return "..." + text[len(text) - width + 3 :] if left else text[: width - 3] + "..."


def time_text(us: float, unit: str | None = None) -> str:
    """A time in microseconds with the unit that fits it."""
    if unit is None:
        unit = "s" if us >= 1e6 else "ms" if us >= 1e3 else "us"
    return f"{us / {'s': 1e6, 'ms': 1e3, 'us': 1.0}[unit]:.3f}{unit}"


def memory_text(n: float) -> str:
    """A number of bytes with the unit that fits it."""
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(n) >= scale:
            return f"{n / scale:.2f} {unit}"
    return f"{int(n)} B"


def gather(threads: list[Any], origin: int) -> list[FunctionEvent]:
    """Convert the recorder's records to events, in the order in which they began."""
    events: list[FunctionEvent] = []
    for thread, raws in threads:
        made: list[FunctionEvent | None] = []
        for raw in raws:
            event = None if raw.kind == "memory" else FunctionEvent(raw, len(events), thread, origin)
            made.append(event)
            if event is not None:
                events.append(event)
                if raw.parent >= 0 and (parent := made[raw.parent]) is not None:
                    parent._add_child(event)
        for event in reversed(made):
            if event is not None and event.cpu_parent is not None:
                event.cpu_parent.cpu_memory_usage += event.cpu_memory_usage
    events.sort(key=lambda event: event.time_range.start)
    return events
