"""`python -m oneflow.autoprof [SCRIPT [ARGUMENT ...]]`: times of ops compared with PyTorch's."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from typing import Any

import oneflow
from oneflow.autoprof._cases import Case, built_in_cases, calls_of_script
from oneflow.autoprof._measure import Row, measure
from oneflow.autoprof._report import HEAD, geometric_mean, line, write_csv, write_html


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m oneflow.autoprof", description=__doc__)
    parser.add_argument("script", nargs="?", help="a program: every different call it makes is timed afterwards")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own arguments")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name or op matches")
    parser.add_argument("--csv", metavar="FILE", help="write the results as CSV")
    parser.add_argument("--html", metavar="FILE", help="write the results as one page")
    parser.add_argument("--seconds", type=float, default=0.2, help="time for each case (default 0.2)")
    parser.add_argument("--threads", type=int, default=1, help="threads of both libraries (default 1)")
    parser.add_argument("--most", type=int, default=200, help="of a script's calls: the so many most frequent")
    parser.add_argument("--no-torch", action="store_true", help="time oneflow alone")
    return parser.parse_args(argv)


def _torch(left_out: bool) -> Any:
    if left_out:
        return None
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    # A script may have put oneflow into torch's place.
    return None if torch is oneflow or not hasattr(torch, "_C") or "oneflow" in torch.__name__ else torch


def _chosen(cases: list[Case], pattern: str) -> list[Case]:
    wanted = re.compile(pattern)
    return [case for case in cases if wanted.search(case.name) or wanted.search(case.text)]


def main(argv: list[str] | None = None) -> int:
    """Measure as the arguments specify; return the exit status."""
    options = _options(argv)
    if options.threads < 1 or options.seconds <= 0:
        print("autoprof: --threads and --seconds must be positive", file=sys.stderr)  # noqa: T201
        return 2
    if options.script:
        cases = calls_of_script(options.script, options.arguments)
        cases = sorted(cases, key=lambda case: -case.calls)
    else:
        cases = built_in_cases()
    try:
        cases = _chosen(cases, options.only)[: options.most]
    except re.error as error:
        print(f"autoprof: --only: {error}", file=sys.stderr)  # noqa: T201
        return 2
    if not cases:
        print("autoprof: no such case", file=sys.stderr)  # noqa: T201
        return 1
    torch = _torch(options.no_torch)
    oneflow.set_num_threads(options.threads)
    if torch is not None:
        torch.set_num_threads(options.threads)
    print(HEAD)  # noqa: T201
    rows: list[Row] = []
    for case in cases:
        rows.append(measure(case, torch, options.seconds))
        print(line(rows[-1]), flush=True)  # noqa: T201
    mean = geometric_mean(rows)
    if mean is not None:
        slower = sum(1 for row in rows if row.ratio is not None and row.ratio < 1)
        summary = f"PyTorch's time over oneflow's, geometric mean: {mean:.2f}"
        print(f"{summary}; slower than PyTorch: {slower} of {len(rows)}")  # noqa: T201
    if options.csv:
        write_csv(rows, options.csv)
    if options.html:
        write_html(rows, options.html, f"AutoProf: {options.script or 'built-in cases'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
