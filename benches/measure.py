"""Interleaved timing of two callables. Prints ratios, never bare times."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable

Thunk = Callable[[], object]

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
    """Rows of ratios and their geometric mean."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.ratios: list[float] = []

    def row(self, name: str, reference: Thunk, ours: Thunk) -> None:
        a, b = medians(reference, ours, self.seconds)
        self.ratios.append(b / a)
        print(f"{name:56s} {a * 1e6:12.2f} us {b * 1e6:12.2f} us   x{b / a:.3f}", flush=True)

    def total(self, section: str) -> None:
        mean = math.exp(sum(map(math.log, self.ratios)) / len(self.ratios))
        print(f"{section}: geo-mean x{mean:.3f} of the reference's time over {len(self.ratios)} cases", flush=True)
