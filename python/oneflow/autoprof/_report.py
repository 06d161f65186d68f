"""Results as text, as CSV and as one page."""

from __future__ import annotations

import csv
import html
import json
import math
from pathlib import Path
from typing import Any

from oneflow.autoprof._measure import Row

_PAGE = Path(__file__).with_name("_page.html")
COLUMNS = ("name", "arguments", "shapes", "dtype", "calls", "oneflow_us", "torch_us", "ratio", "total_us", "note")


def _record(row: Row) -> dict[str, Any]:
    def short(value: Any) -> Any:
        return round(value, 4) if isinstance(value, float) else value

    return {column: short(getattr(row, column)) for column in COLUMNS}


def write_csv(rows: list[Row], path: Any) -> None:
    """Write one line a case. Times are microseconds; ``ratio`` is PyTorch's time over oneflow's.

    Example::

        >>> oneflow.autoprof.write_csv([oneflow.autoprof.Row("add", "", "[2]", "float32", 3, 2.0, 5.0)], "ops.csv")
    """
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(_record(row) for row in rows)


def write_html(rows: list[Row], path: Any, title: str = "AutoProf") -> None:
    """Write a page that needs no network and no other file: a table to sort and to filter.

    Example::

        >>> oneflow.autoprof.write_html([oneflow.autoprof.Row("add", "", "[2]", "float32", 3, 2.0, 5.0)], "ops.html")
    """
    data = {"columns": COLUMNS, "rows": [_record(row) for row in rows], "mean": geometric_mean(rows)}
    text = json.dumps(data).replace("</", "<\\/")
    page = _PAGE.read_text(encoding="utf-8").replace("__TITLE__", html.escape(title)).replace("__DATA__", text)
    Path(path).write_text(page, encoding="utf-8")


def geometric_mean(rows: list[Row]) -> float | None:
    """The mean of the ratios, as ratios are averaged."""
    logs = [math.log(row.ratio) for row in rows if row.ratio]
    return math.exp(sum(logs) / len(logs)) if logs else None


def line(row: Row) -> str:
    """One line of the terminal's table."""
    times = [f"{us:11.2f}" if us is not None else f"{'-':>11}" for us in (row.oneflow_us, row.torch_us)]
    ratio = f"{row.ratio:7.2f}" if row.ratio else f"{'-':>7}"
    shown = f"{row.name} {row.shapes}"
    return f"{shown[:58]:<58} {row.dtype:<9} {row.calls:>6} {times[0]} {times[1]} {ratio}  {row.note[:60]}".rstrip()


HEAD = f"{'op':<58} {'dtype':<9} {'calls':>6} {'oneflow us':>11} {'torch us':>11} {'ratio':>7}"
