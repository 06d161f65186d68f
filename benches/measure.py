"""Interleaved timing of two callables. Prints ratios, never bare times."""

from __future__ import annotations

import gc
import json
import math
import os
import pathlib
import statistics
import time
from collections.abc import Callable

Thunk = Callable[[], object]


def is_small() -> bool:
    """Whether sizes are to be such that an emulated GPU comes to the end (BENCHES_SMALL)."""
    return os.environ.get("BENCHES_SMALL") == "1"


_clock = time.perf_counter


def count_processor_time(on: bool = True) -> None:
    """Count this thread's processor time, which other processes disturb less; for runs on one thread."""
    global _clock
    _clock = time.thread_time if on else time.perf_counter


_finishes: tuple[Thunk, ...] = ()


def wait_by(*finishes: Thunk) -> None:
    """Count until these return, too: a call to a GPU comes back before its work is done."""
    global _finishes
    _finishes = finishes


def seconds_per_call(f: Thunk, n: int) -> float:
    start = _clock()
    for _ in range(n):
        f()
    for finish in _finishes:
        finish()
    return (_clock() - start) / n


def calls_per_sample(f: Thunk, sample: float = 0.01) -> int:
    """How many calls make one sample long enough for the clock."""
    for _ in range(3):
        f()
    return max(1, int(sample / max(seconds_per_call(f, 3), 1e-8)))


def medians(f: Thunk, g: Thunk, seconds: float) -> tuple[float, float]:
    """Median seconds a call of `f` and of `g`; samples alternate, so that a busy machine slows both."""
    counts = calls_per_sample(f), calls_per_sample(g)
    samples: tuple[list[float], list[float]] = ([], [])
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        while len(samples[0]) < 5 or time.perf_counter() - start < seconds:
            for h, n, s in zip((f, g), counts, samples, strict=True):
                s.append(seconds_per_call(h, n))
    finally:
        gc.enable()
    return statistics.median(samples[0]), statistics.median(samples[1])


class Report:
    """Rows of ratios and their geometric mean. A row that fails says why, and the next one follows.

    Args:
        seconds: for each row.
        rows: a file to which each row is added as a line of JSON, as soon as it is there.
        section: the name of the section, for that file.
        after_failure: called after a row that failed.
    """

    def __init__(
        self,
        seconds: float,
        rows: pathlib.Path | None = None,
        section: str = "",
        after_failure: Callable[[], None] | None = None,
    ) -> None:
        self.seconds, self.rows, self.section, self.after_failure = seconds, rows, section, after_failure
        self.ratios: list[float] = []
        self.n_failed = 0

    def row(self, name: str, reference: Thunk, ours: Thunk, work: dict[str, float] | None = None) -> None:
        """Time both. `work`: the bytes that a call must move, or its operations."""
        try:
            a, b = medians(reference, ours, self.seconds)
        except Exception as error:
            self.failed(name, error)
            return
        self.ratios.append(b / a)
        print(f"{name:56s} {a * 1e6:12.2f} us {b * 1e6:12.2f} us   x{b / a:.3f}", flush=True)
        self._write(name=name, reference=a, ours=b, ratio=b / a, **(work or {}))

    def failed(self, name: str, error: Exception) -> None:
        """Note that a row, or what was to make it, raised."""
        self.n_failed += 1
        text = (str(error).strip().splitlines() or [""])[0]
        print(f"{name:56s} failed: {type(error).__name__}: {text[:200]}", flush=True)
        self._write(name=name, error=f"{type(error).__name__}: {text[:500]}")
        if self.after_failure is not None:
            self.after_failure()

    def names(self) -> set[str]:
        """The rows of this section that the file holds."""
        if self.rows is None or not self.rows.is_file():
            return set()
        rows = map(json.loads, self.rows.read_text().splitlines())
        return {row["name"] for row in rows if row["section"] == self.section}

    def total(self, section: str) -> None:
        failed = f"; {self.n_failed} failed" if self.n_failed else ""
        if not self.ratios:
            print(f"{section}: no case was measured{failed}", flush=True)
            return
        mean = math.exp(sum(map(math.log, self.ratios)) / len(self.ratios))
        print(
            f"{section}: geo-mean x{mean:.3f} of the reference's time over {len(self.ratios)} cases{failed}", flush=True
        )

    def _write(self, **row: object) -> None:
        if self.rows is not None:
            with self.rows.open("a") as file:
                file.write(json.dumps({"section": self.section, **row}) + "\n")
