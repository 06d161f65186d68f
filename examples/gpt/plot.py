"""The loss curve as a PNG file: by matplotlib where it is installed, else by a small writer of our own."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

Curve = Sequence[tuple[float, float]]


def save_curves(path: Path, curves: dict[str, Curve], title: str) -> None:
    """Write ``curves`` (name to points (x, y)) to the PNG file ``path``."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        path.write_bytes(_draw(curves))
        return
    figure, axes = plt.subplots(figsize=(7, 4), dpi=120)
    for name, points in curves.items():
        axes.plot([x for x, _ in points], [y for _, y in points], label=name, linewidth=1)
    axes.set(xlabel="step", ylabel="nats per byte", title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


_COLOURS = [(31, 119, 180), (214, 39, 40), (44, 160, 44), (127, 127, 127), (148, 103, 189)]


def _draw(curves: dict[str, Curve], width: int = 800, height: int = 450, margin: int = 20) -> bytes:
    """Lines on white with a frame and four grid lines; no text."""
    points = [point for curve in curves.values() for point in curve]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    x0, x1, y0, y1 = min(xs), max(max(xs), min(xs) + 1e-9), min(ys), max(max(ys), min(ys) + 1e-9)
    rows = [bytearray(b"\xff" * (3 * width)) for _ in range(height)]

    def put(column: int, row: int, colour: tuple[int, int, int]) -> None:
        if 0 <= column < width and 0 <= row < height:
            rows[row][3 * column : 3 * column + 3] = bytes(colour)

    def line(a: tuple[int, int], b: tuple[int, int], colour: tuple[int, int, int]) -> None:
        n = max(abs(b[0] - a[0]), abs(b[1] - a[1]), 1)
        for i in range(n + 1):
            put(a[0] + (b[0] - a[0]) * i // n, a[1] + (b[1] - a[1]) * i // n, colour)

    def place(x: float, y: float) -> tuple[int, int]:
        return (
            margin + round((x - x0) / (x1 - x0) * (width - 2 * margin)),
            height - margin - round((y - y0) / (y1 - y0) * (height - 2 * margin)),
        )

    for i in range(5):
        row = margin + i * (height - 2 * margin) // 4
        line((margin, row), (width - margin, row), (225, 225, 225))
    corners = [(margin, margin), (width - margin, margin), (width - margin, height - margin), (margin, height - margin)]
    for a, b in zip(corners, corners[1:] + corners[:1], strict=True):
        line(a, b, (90, 90, 90))
    for curve, colour in zip(curves.values(), _COLOURS * len(curves), strict=False):
        places = [place(x, y) for x, y in curve]
        for a, b in itertools.pairwise(places):
            line(a, b, colour)
    return _png(width, height, b"".join(b"\x00" + bytes(row) for row in rows))


def _png(width: int, height: int, data: bytes) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b"")
