"""`make bench-gpu`: every section in a process of its own with a time limit, and one closing table.

What fails is a row that says why: a section that breaks its process or runs out of time costs its remaining rows alone.
Rows go to a JSON file as they come. A second table has rates (GB/s, TFLOP/s) and their shares of the ceilings that
the same run measured. With ``--emulated`` the emulated driver of the kernels' tests stands for a GPU and PyTorch runs
on the processor, at small sizes: that tries the harness, and its numbers mean nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

from benches.__main__ import BROKEN, UNMADE
from benches.measure import Report
from benches.roofline import shares

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The loader's work is done by processors.
SECTIONS = (
    *("roofline", "tiny", "backward", "mlp", "products", "kernels", "conv", "conv_last", "conv_bf16", "pool"),
    *("train", "autocast", "generate", "graph"),
)
# Those with sizes that an emulated GPU comes to the end of.
SMALL = ("roofline", "tiny", "train", "autocast", "graph")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("make bench-gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)}; all by default")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each case (0.5)")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for a section (240)")
    parser.add_argument("--only", default="", help="cases with this text in their name")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "target/gpu/bench.json", help="where rows go")
    parser.add_argument("--emulated", action="store_true", help="on the emulated driver, where there is no GPU")
    options = parser.parse_args(arguments)
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(f"unknown section {', '.join(sorted(unknown))}")
    further = ["--seconds", str(options.seconds), "--only", options.only]
    if options.emulated:
        from suites.gpu import emulate

        emulate(ROOT / "target/emulator")
        further += ["--reference-device", "cpu"]
        os.environ["BENCHES_SMALL"] = "1"
    options.json.parent.mkdir(parents=True, exist_ok=True)
    rows = options.json.with_suffix(".rows")
    rows.unlink(missing_ok=True)
    endings = {
        name: _section(name, rows, options.limit, further)
        for name in options.sections or (SMALL if options.emulated else SECTIONS)
    }
    measured = [json.loads(line) for line in rows.read_text().splitlines()] if rows.is_file() else []
    options.json.write_text(json.dumps({"sections": endings, "rows": measured}, indent=1) + "\n")
    print("\n" + table(endings, measured))
    print("\n".join(["", *shares(measured), ""]))
    print(options.json)
    return 0 if all(ending["ending"] == "ok" for ending in endings.values()) else 1


def _section(name: str, rows: pathlib.Path, limit: float, further: list[str]) -> dict[str, Any]:
    """Run a section to its end, or to the limit; how it ended."""
    started, n_starts = time.monotonic(), 0
    command = [sys.executable, "-m", "benches", name, "--device", "cuda", "--json", str(rows), "--resume", *further]
    ending, code = "", BROKEN
    # A fault leaves the rows that follow to another process; one that has done nothing new was the last.
    while code == BROKEN and UNMADE not in (before := Report(0, rows, name).names()):
        n_starts += 1
        left = limit - (time.monotonic() - started)
        try:
            code = subprocess.run(command, cwd=ROOT, timeout=max(left, 0), check=False).returncode
        except subprocess.TimeoutExpired:
            ending = f"stopped after {limit:.0f} s"
            break
        ending = "ok" if code in (0, BROKEN) else f"the process ended with {code}"
        if code == BROKEN and Report(0, rows, name).names() == before:
            ending = "the device broke before a row was made"
            break
    return {"ending": ending, "seconds": round(time.monotonic() - started, 1), "n_starts": n_starts}


def table(endings: dict[str, dict[str, Any]], rows: list[dict[str, Any]]) -> str:
    """A line a section: how many rows, their geometric mean, the worst of them, what failed."""
    lines = [f"{'section':12} {'rows':>5} {'failed':>6} {'mean':>7} {'worst':>7}  the worst, or why not"]
    for name, ending in endings.items():
        own = [row for row in rows if row["section"] == name]
        good, bad = [row for row in own if "ratio" in row], [row for row in own if "error" in row]
        text = ending["ending"] if ending["ending"] != "ok" else ""
        mean = worst = "-"
        if good:
            most = max(good, key=lambda row: row["ratio"])
            mean = f"x{math.exp(sum(math.log(row['ratio']) for row in good) / len(good)):.3f}"
            worst, text = f"x{most['ratio']:.2f}", text or most["name"]
        if bad:
            text = f"{bad[0]['name']}: {bad[0]['error']}" + (f"; {text}" if text else "")
        lines.append(f"{name:12} {len(good):5} {len(bad):6} {mean:>7} {worst:>7}  {text[:78]}")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
