"""Reports of results: exclusions, causes, tables, and the difference between two runs."""

from __future__ import annotations

import fnmatch
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Exclusions:
    """The committed list of a suite: ``[[exclude]]`` with ``cases`` (patterns) or ``error`` (a regular expression over
    "type: message"), an optional ``file``, and a ``reason``."""

    def __init__(self, path: Path) -> None:
        self.entries: list[dict[str, Any]] = []
        if path.is_file():
            self.entries = tomllib.loads(path.read_text()).get("exclude", [])
        for entry in self.entries:
            unknown = set(entry) - {"file", "cases", "error", "reason"}
            if unknown or not entry.get("reason") or ("cases" in entry) == ("error" in entry):
                raise SystemExit(f"{path.name}: an entry needs a reason and either cases or error: {entry}")

    def of(self, file: str, case: str, result: dict[str, Any] | None) -> str | None:
        """The reason why a case is left out, or None."""
        for entry in self.entries:
            if not fnmatch.fnmatchcase(file, entry.get("file", "*")):
                continue
            if any(fnmatch.fnmatchcase(case, pattern) for pattern in entry.get("cases", [])):
                return str(entry["reason"])
            if "error" in entry and result and re.search(entry["error"], f"{result['type']}: {result['message']}"):
                return str(entry["reason"])
        return None


_MASKS = (
    (
        r"\b(float|int|uint|bfloat|complex)(8|16|32|64|128)\b|\b(?:BFloat16|Half|Bool|Byte|Char|Short|Int|Long|Float|Double|Complex\w+)\b",
        "DTYPE",
    ),
    (r"0x[0-9a-fA-F]+", "0x#"),
    (r"/[\w./+-]+/", ""),
    (r"\[[\d\s,xX-]*\]|\(\d+(?:\s*,\s*\d+)*,?\s*\)|(?:Size|size)\([^)]*\)", "SHAPE"),
    (r"(?<![A-Za-z_])-?\d+(\.\d+)?(e[+-]?\d+)?", "N"),
    (r"\bN(?:, N)+\b", "N.."),
)


def cause(result: dict[str, Any]) -> str:
    """Type and first line of the message, with numbers, shapes and addresses masked."""
    text = next((line.strip() for line in result["message"].splitlines() if line.strip()), "")
    for pattern, mask in _MASKS:
        text = re.sub(pattern, mask, text)
    if re.match(r"(False is not true|True is not false|\w+ not raised.*|unexpectedly None|)$", text):
        text = f"{text or 'failed'} in `{result.get('line', '')}`"
    return f"{result['type']}: {text[:150]}"


def table(files: dict[str, dict[str, Any]]) -> str:
    """One line a file, and their sum."""
    width = max([len(name) for name in files] + [10])
    lines = [f"{'file':{width}}  {'count':>6} {'pass':>6} {'fail':>6} {'share':>7} {'left out':>8} {'skipped':>7}"]
    sums: Counter[str] = Counter()
    for name, entry in [*files.items(), ("together", sums)]:
        n = entry["n_counted"]
        share = f"{100 * entry['n_passed'] / n:6.1f}%" if n else "      -"
        note = f"  {entry['unloadable'][:100]}" if name in files and entry["unloadable"] else ""
        lines.append(
            f"{name:{width}}  {n:6} {entry['n_passed']:6} {n - entry['n_passed']:6} {share} "
            f"{entry['n_excluded']:8} {entry['n_skipped']:7}{note}"
        )
        if name in files:
            sums.update({key: entry[key] for key in ("n_counted", "n_passed", "n_excluded", "n_skipped")})
    return "\n".join(lines)


def causes(files: dict[str, dict[str, Any]], n_lines: int) -> str:
    """The failures by cause, most frequent first, each with an example."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name, entry in files.items():
        for case, result in entry["failures"].items():
            groups[cause(result)].append(f"{name}::{case}")
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    lines = [f"{len(cases):5}  {text}\n       {cases[0]}" for text, cases in ordered[:n_lines]]
    if len(ordered) > n_lines:
        lines.append(f"  ... and {len(ordered) - n_lines} causes more (--causes N shows N)")
    return "\n".join(lines)


def difference(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Cases that pass in one run and fail in the other, over the cases that both ran."""
    lines = []
    for name, entry in after["files"].items():
        old = before["files"].get(name)
        if old is None:
            continue
        ran = (set(old["passes"]) | set(old["failures"])) & (set(entry["passes"]) | set(entry["failures"]))
        for word, cases in (
            ("fails now", set(old["passes"]) & set(entry["failures"])),
            ("passes now", set(old["failures"]) & set(entry["passes"])),
        ):
            lines += [f"{word:10} {name}::{case}" for case in sorted(cases & ran)]
    return "\n".join(lines) or "no case changed"
