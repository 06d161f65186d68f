"""A compiled program as one page: the graph, its schedule and its memory over time."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

_PAGE = Path(__file__).with_name("report.html")


def write(compiled: Any, title: str, path: Any) -> None:
    """Write the page of a compiled program to ``path``. It needs no network and no other file."""
    rows, held = compiled.rows()
    keys = ("name", "origin", "after", "ins", "outs", "bytes")
    data = {
        "rows": [dict(zip(keys, row, strict=True)) for row in rows],
        "held": [dict(zip(("offset", "bytes", "from", "to"), buffer, strict=True)) for buffer in held],
        "memory": compiled.memory(),
    }
    # The data is inside a script element, which only this sequence could end.
    text = json.dumps(data).replace("</", "<\\/")
    page = _PAGE.read_text(encoding="utf-8").replace("__TITLE__", html.escape(title)).replace("__DATA__", text)
    Path(path).write_text(page, encoding="utf-8")
