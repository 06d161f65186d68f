"""A progress bar: one line that renews itself on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Show how far a loop is.

    Args:
        total: number of steps.
        start: steps already done when it begins.
        unit: what ``advance(amount)`` counts, shown per second.
        stream: where to write.
    """

    def __init__(self, total: int, start: int = 0, unit: str = "tokens", stream: TextIO = sys.stderr) -> None:
        self.total = total
        self.done = start
        self.unit = unit
        self.stream = stream
        self.live = stream.isatty()
        self.began = time.perf_counter()
        self.shown = 0.0
        self.first = start
        self.amount = 0

    def advance(self, amount: int, text: str) -> None:
        """Count one step that processed ``amount`` units, and show ``text``."""
        self.done += 1
        self.amount += amount
        now = time.perf_counter()
        if now - self.shown > (0.1 if self.live else 5.0) or self.done == self.total:
            self.shown = now
            self._write(now - self.began, text)

    def _write(self, seconds: float, text: str) -> None:
        width = 24
        filled = width * self.done // max(self.total, 1)
        left = seconds / max(self.done - self.first, 1) * (self.total - self.done)
        line = (
            f"{self.done:>5}/{self.total} [{'=' * filled}{' ' * (width - filled)}] {text}  "
            f"{self.amount / max(seconds, 1e-9):,.0f} {self.unit}/s  {_clock(seconds)}<{_clock(left)}"
        )
        self.stream.write(f"\r\x1b[K{line}" if self.live else f"{line}\n")
        self.stream.flush()

    def note(self, text: str) -> None:
        """Print ``text`` on a line of its own, above the bar."""
        self.stream.write(f"\r\x1b[K{text}\n" if self.live else f"{text}\n")
        self.stream.flush()

    def close(self) -> float:
        """End the line and return the seconds since the beginning."""
        if self.live:
            self.stream.write("\n")
        return time.perf_counter() - self.began


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
