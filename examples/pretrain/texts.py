"""Texts as bytes, and what each kind of model is asked about them. A batch is a pure function of seed and step."""

from __future__ import annotations

import random
import sysconfig
from pathlib import Path

import oneflow as torch
from oneflow import Tensor

MASK = 256
SPAN = 16
HELD_OUT_EVERY = 10
_PART = 1 << 16


class Texts:
    """Bytes to train on and bytes held out.

    Args:
        path: a file, or a folder whose files are read by name; Python's standard library without one.
        time: length of a text.

    Raises:
        ValueError: too few bytes.
    """

    def __init__(self, path: str, time: int) -> None:
        place = Path(path or sysconfig.get_path("stdlib"))
        files = [place] if place.is_file() else sorted(place.glob("*" if path else "*.py"))
        whole = b"\n".join(file.read_bytes() for file in files if file.is_file())
        size = min(_PART, max(len(whole) // HELD_OUT_EVERY, 1))
        parts = [whole[i : i + size] for i in range(0, len(whole), size)]
        last = HELD_OUT_EVERY - 1
        self.held_out = b"".join(part for i, part in enumerate(parts) if i % HELD_OUT_EVERY == last)
        self.train = b"".join(part for i, part in enumerate(parts) if i % HELD_OUT_EVERY != last)
        self.time = time
        self.about = f"{len(self.train):,} bytes"
        if len(self.held_out) < time + 2:
            raise ValueError(f"data.path: {place} has {len(whole)} bytes; texts of {time} need more to hold some out")

    def windows(self, draw: random.Random, held_out: bool, size: int) -> Tensor:
        """int64 (size, time + 1)."""
        text = self.held_out if held_out else self.train
        starts = [draw.randrange(len(text) - self.time) for _ in range(size)]
        return torch.tensor([list(text[start : start + self.time + 1]) for start in starts])

    def batch(self, kind: str, seed: int, step: int, size: int, held_out: bool = False) -> tuple[Tensor, ...]:
        """What a model reads, and at last the targets: the next bytes, hidden bytes, or a span that was cut out."""
        draw = random.Random(seed * 1_000_003 + step)
        windows = self.windows(draw, held_out, size)
        if kind == "bert":
            text = windows[:, :-1]
            hidden = torch.tensor([[draw.random() < 0.15 for _ in range(self.time)] for _ in range(size)])
            return text.masked_fill(hidden, MASK), text.masked_fill(~hidden, -100)
        if kind == "t5":
            text = windows[:, :-1]
            start = draw.randrange(1, self.time - SPAN)
            mask = torch.full((size, 1), MASK)
            source = torch.cat([text[:, :start], mask, text[:, start + SPAN :]], dim=1)
            target = text[:, start : start + SPAN]
            return source, torch.cat([mask, target[:, :-1]], dim=1), target.contiguous()
        return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
