"""Timing of small pieces of code: repeated often enough to be trusted, with GPUs waited for.

>>> from oneflow.utils.benchmark import Timer
>>> measured = Timer("x + x", globals={"x": oneflow.ones(8)}).timeit(100)
>>> measured.number_per_run
100
"""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import oneflow
from oneflow import cuda

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "select_unit", "timer"]


def timer() -> float:
    """Seconds, after everything that was issued to a GPU is done.

    Example::

        >>> oneflow.utils.benchmark.timer() > 0
        True
    """
    if cuda.is_initialized():
        cuda.synchronize()
    return timeit.default_timer()


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which ``t`` seconds read well, and how many seconds it has.

    Example::

        >>> oneflow.utils.benchmark.select_unit(2e-6)
        ('us', 1e-06)
    """
    for unit, seconds in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3)):
        if t < 1000 * seconds:
            return unit, seconds
    return "s", 1.0


@dataclass(frozen=True)
class TaskSpec:
    """The subject of a measurement, and its names in a table.

    Example::

        >>> from oneflow.utils.benchmark import TaskSpec
        >>> TaskSpec("x + 1", "x = 1").stmt
        'x + 1'
    """

    stmt: str
    setup: str = "pass"
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """Label and sub-label, else the statement."""
        return ": ".join(part for part in (self.label or self.stmt, self.sub_label) if part)


@dataclass
class Measurement:
    """Times of several runs of ``number_per_run`` repetitions each, in seconds.

    Example::

        >>> from oneflow.utils.benchmark import Timer
        >>> type(Timer("1 + 1").timeit(10)).__name__
        'Measurement'
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None)

    @property
    def times(self) -> list[float]:
        """Seconds of one repetition, run by run."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        """The median of :attr:`times`."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """The mean of :attr:`times`."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """The interquartile range of :attr:`times`."""
        if len(self.times) < 2:
            return 0.0
        first, _, third = statistics.quantiles(self.times, n=4, method="inclusive")
        return third - first

    @property
    def title(self) -> str:
        """The words for what was measured."""
        return self.task_spec.title

    @property
    def num_threads(self) -> int:
        """Threads of the CPU."""
        return self.task_spec.num_threads

    @property
    def has_warnings(self) -> bool:
        """Whether the runs differ by more than a tenth of the median."""
        return self.iqr > 0.1 * self.median

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Join measurements of one task."""
        joined: dict[tuple[TaskSpec, int], Measurement] = {}
        for m in measurements:
            have = joined.setdefault(
                (m.task_spec, m.number_per_run), Measurement(m.number_per_run, [], m.task_spec, m.metadata)
            )
            have.raw_times.extend(m.raw_times)
        return list(joined.values())

    def __repr__(self) -> str:
        unit, seconds = select_unit(self.median)
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        lines = [f"<{type(self).__name__}> {self.title}", f"  Median: {self.median / seconds:.2f} {unit}"]
        if len(self.times) > 1:
            lines.append(f"  IQR:    {self.iqr / seconds:.2f} {unit}")
        return "\n".join([*lines, f"  {len(self.times)} runs of {self.number_per_run}, {threads}"])


class Timer:
    """Measures a statement.

    Args:
        stmt: Python code.
        setup: code that runs once before.
        timer: a clock in seconds.
        globals: the names that the code sees.
        label, sub_label, description, env: words for tables.
        num_threads: threads of the CPU during a measurement.

    Example::

        >>> from oneflow.utils.benchmark import Timer
        >>> Timer("x + 1", setup="import oneflow; x = oneflow.ones(2)").timeit(10).median > 0
        True
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: str = "python",
    ) -> None:
        if str(language).lower() not in ("python", "py", "language.python"):
            raise NotImplementedError(f"oneflow.utils.benchmark.Timer: only Python is measured, not {language}")
        if global_setup:
            raise ValueError("global_setup is for C++ only")
        names = {"oneflow": oneflow, **(globals or {})}
        self._task = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)
        self._timer = timeit.Timer(stmt, setup, timer, names)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Run the statement ``number`` times, after a short warm-up."""
        with _threads(self._task.num_threads):
            self._timer.timeit(max(number // 100, 2))
            return Measurement(number, [self._timer.timeit(number)], self._task)

    def repeat(self, repeat: int = -1, number: int = -1) -> Any:
        """Not provided: ``timeit``, ``blocked_autorange`` or ``adaptive_autorange``."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block(self, min_run_time: float) -> int:
        """Repetitions that take about a thousandth of the whole time, so that reading the clock does not count."""
        number, took = 1, self._timer.timeit(2) / 2
        while took * number < max(min_run_time / 1000, 1e-5) and number < 1_000_000_000:
            number *= 10
            took = self._timer.timeit(number) / number
        return number

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Runs of equal length until ``min_run_time`` seconds are spent."""
        with _threads(self._task.num_threads):
            number = self._block(min_run_time)
            times: list[float] = []
            while sum(times) < min_run_time:
                times.append(self._timer.timeit(number))
                if callback is not None:
                    callback(number, times[-1])
            return Measurement(number, times, self._task)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Run until the interquartile range is below ``threshold`` of the median, or for ``max_run_time`` seconds."""
        with _threads(self._task.num_threads):
            number = self._block(0.05)
            found = Measurement(number, [], self._task)
            while sum(found.raw_times) < max_run_time:
                found.raw_times.append(self._timer.timeit(number))
                if callback is not None:
                    callback(number, found.raw_times[-1])
                enough = len(found.raw_times) >= 4 and sum(found.raw_times) >= min_run_time
                if enough and found.iqr < threshold * found.median:
                    break
            return found


class _threads:
    def __init__(self, wanted: int) -> None:
        self._wanted = wanted

    def __enter__(self) -> None:
        self._before = oneflow.get_num_threads()
        oneflow.set_num_threads(self._wanted)

    def __exit__(self, *raised: object) -> None:
        oneflow.set_num_threads(self._before)


class Compare:
    """A table of measurements: a row for each sub-label, a column for each description.

    Example::

        >>> from oneflow.utils.benchmark import Compare, Timer
        >>> "sum" in str(Compare([Timer("1 + 1", label="sum").timeit(10)]))
        True
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results = Measurement.merge(results)
        self._trimmed = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        self._results = Measurement.merge([*self._results, *results])

    def trim_significant_figures(self) -> None:
        """Show whole numbers."""
        self._trimmed = True

    def colorize(self, rowwise: bool = False) -> None:
        """Accepted: the table is plain text."""

    def highlight_warnings(self) -> None:
        """Accepted: the table is plain text."""

    def __str__(self) -> str:
        unit, seconds = select_unit(min((m.median for m in self._results), default=1.0))
        columns = list(dict.fromkeys(m.task_spec.description or m.task_spec.env or "" for m in self._results))
        rows: dict[tuple[str, int], dict[str, str]] = {}
        for m in self._results:
            shown = f"{m.median / seconds:.{0 if self._trimmed else 1}f}"
            row = rows.setdefault((m.task_spec.sub_label or m.task_spec.stmt, m.num_threads), {})
            row[m.task_spec.description or m.task_spec.env or ""] = shown
        label = next((m.task_spec.label for m in self._results if m.task_spec.label), "")
        table = [["", *columns]]
        table += [[f"{name} ({n} threads)", *(row.get(c, "") for c in columns)] for (name, n), row in rows.items()]
        widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
        lines = ["  ".join(text.rjust(w) for text, w in zip(line, widths, strict=True)) for line in table]
        return "\n".join([f"[ {label} ]", *lines, f"Times are in {unit}."])

    def print(self) -> None:
        """Write the table to the standard output."""
        import sys

        sys.stdout.write(f"{self}\n")
