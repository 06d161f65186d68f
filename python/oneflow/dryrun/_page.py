"""A dry run as one page: tables, and a timeline that can be zoomed and asked."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["page"]

_TEMPLATE = Path(__file__).parent / "page.html"


def page(head: str, notes: Iterable[str], tables: Iterable[Any], spans: list[Any]) -> str:
    """Return the page's text."""

    def line(cells: Iterable[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    parts = [f"<p class=note>{html.escape(note)}</p>" for note in notes]
    for heads, rows in tables:
        parts.append("<table>" + line(heads, "th") + "".join(line(row, "td") for row in rows) + "</table>")
    origins = list(dict.fromkeys(span[5] for span in spans))
    number = {origin: i for i, origin in enumerate(origins)}
    kinds = ("compute", "communication", "wait")
    # Nanoseconds, as whole numbers: short, and exact enough.
    first = min((span[2] for span in spans), default=0.0)
    rows = [
        [rank, stream, round(1e9 * (start - first)), round(1e9 * (end - first)), kinds.index(kind), number[origin]]
        for rank, stream, start, end, kind, origin in spans
    ]
    # No text of the program may end the script.
    data = json.dumps({"origins": origins, "spans": rows}).replace("</", "<\\/")
    text = _TEMPLATE.read_text(encoding="utf-8")
    for key, value in (("HEAD", html.escape(head)), ("TABLES", "".join(parts)), ("DATA", data)):
        text = text.replace(f"%{key}%", value, 1 if key == "DATA" else -1)
    return text
