"""`make test-gpu`: a smoke step, then the tests that need a GPU by family, each family in separate processes.

An illegal address or a lost device breaks a process for good: the case that met it fails, and the rest of its family
goes on in another process. Every family has a time limit. Results go to a JSON file as they come; at the end one table
fits a screen. With ``--emulated`` the emulated driver of the kernels' own tests replaces a GPU.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from suites import report
from suites.runner import Limits, Result, run_file

ROOT = Path(__file__).resolve().parents[2]
FILES = (
    "test_device.py",
    "test_newer_codes.py",
    "test_streams.py",
    "test_memory.py",
    "test_offload.py",
    "test_graphs.py",
    "test_compiled.py",
    "test_linalg.py",
    "test_cudnn.py",
    "test_attention_cudnn.py",
    "test_gradients.py",
    "test_nccl.py",
    "test_layers.py",
    "test_recurrent.py",
    "test_gpt.py",
    "test_table.py",
)
# Cases of a family that run in one process.
PART = 500


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if options.emulated:
        emulate(ROOT / "target/emulator")
    started = time.monotonic()
    out = options.json or ROOT / "target/gpu/test.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    smoke = _smoke(options.smoke_limit) if not options.skip_smoke else {"passed": True, "output": "no smoke step"}
    run: dict[str, Any] = {"smoke": smoke, "families": {}}
    out.write_text(json.dumps(run, indent=1) + "\n")
    print(smoke["output"], flush=True)
    if not smoke["passed"]:
        print(f"the smoke step failed ({smoke['ending']}), so nothing else was tried\n{out}")
        return 1
    families = _families(options)

    def one(family: str) -> tuple[str, dict[str, Any]]:
        return family, _run(families[family], options)

    with ThreadPoolExecutor(options.jobs) as pool:
        for family, entry in pool.map(one, families):
            run["families"][family] = entry
            out.write_text(json.dumps(run, indent=1) + "\n")
            print(f"{family}: {entry['n_passed']} of {entry['n']} ({entry['seconds']:.0f} s)", file=sys.stderr)
    print(_table(run["families"], time.monotonic() - started))
    print(out)
    return 0 if all(entry["n_passed"] == entry["n"] for entry in run["families"].values()) else 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("make test-gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("-k", dest="expression", help="only cases that match, as pytest's -k")
    parser.add_argument("--families", help="only these, separated by commas")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for a case (120)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for a family (300)")
    parser.add_argument("--smoke-limit", type=float, default=120.0, help="seconds for the smoke step (120)")
    parser.add_argument("--skip-smoke", action="store_true", help="go on to the tests at once")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), help="families at a time")
    parser.add_argument("--json", type=Path, help="where results go (target/gpu/test.json)")
    parser.add_argument("--emulated", action="store_true", help="on the emulated driver, where there is no GPU")
    return parser.parse_args(arguments)


def emulate(folder: Path) -> None:
    """Point this process and its children to the emulated libraries."""
    build = ROOT / "crates/kernels/cuda/tests/emulator/build.sh"
    subprocess.run(["bash", str(build), str(folder)], check=True)
    os.environ["ONEFLOW_CUDA_LIB_DIRS"] = str(folder)
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH")]))
    os.environ["ONEFLOW_CUBIN_CACHE"] = str(emulated_cache(folder))
    os.environ["ONEFLOW_REQUIRE_GPU"] = "1"
    os.environ.setdefault("EMULATOR_DEVICES", "2")


def emulated_cache(folder: Path) -> Path:
    """The folder of emulated code: it holds the emulator's own words, so it has another name when they change."""
    names = ("shim.h", "warp.h", "nvrtc.cpp")
    words = b"".join((ROOT / "crates/kernels/cuda/tests/emulator" / name).read_bytes() for name in names)
    return folder / f"cubin-{hashlib.sha256(words).hexdigest()[:12]}"


def _smoke(limit: float) -> dict[str, Any]:
    """The step that checks whether anything works at all: the devices, a copy, a kernel, a product, a gradient."""
    started = time.monotonic()
    command = [sys.executable, str(ROOT / "tests/gpu/smoke.py")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        output, ending, passed = done.stdout + done.stderr, f"it ended with {done.returncode}", done.returncode == 0
    except subprocess.TimeoutExpired as expired:
        texts = [t.decode() if isinstance(t, bytes) else t or "" for t in (expired.stdout, expired.stderr)]
        output, ending, passed = "".join(texts), f"it did not end within {limit:.0f} s", False
    seconds = round(time.monotonic() - started, 1)
    return {"passed": passed, "ending": ending, "seconds": seconds, "output": output[-4000:].strip()}


def _families(options: argparse.Namespace) -> dict[str, tuple[Path, list[str]]]:
    """Files, and for the table of ops the folders that ops are defined in: name to file and cases."""
    folder_of = {path.stem: path.parent.name for path in (ROOT / "crates/ops/src").glob("*/*.rs")}
    found: dict[str, tuple[Path, list[str]]] = {}
    selection = ["-k", options.expression] if options.expression else []
    for name in FILES:
        path = ROOT / "tests/gpu" / name
        listed = run_file("gpu", "ours", ROOT, path, Limits(file=120), selection, only=[])
        if listed.unloadable:
            found[path.stem.removeprefix("test_")] = (path, [])
        for case in listed.collected:
            family = path.stem.removeprefix("test_")
            op = re.search(r"\[([a-z0-9_]+)", case)
            if name == "test_table.py" and op:
                family = f"ops: {folder_of.get(op[1], 'others')}"
            found.setdefault(family, (path, []))[1].append(case)
    found = _in_parts(found)
    if options.families:
        wanted = options.families.split(",")
        found = {f: entry for f, entry in found.items() if f.removeprefix("ops: ").partition(",")[0] in wanted}
    return found


def _in_parts(found: dict[str, tuple[Path, list[str]]]) -> dict[str, tuple[Path, list[str]]]:
    """Cut large families: compiled for the first time, they would exceed the limit of a family."""
    parts: dict[str, tuple[Path, list[str]]] = {}
    for family, (path, cases) in found.items():
        n = -(-len(cases) // PART) or 1
        for k in range(n):
            name = family if n == 1 else f"{family}, {k + 1} of {n}"
            parts[name] = (path, cases[k * PART : (k + 1) * PART])
    return parts


def _run(family: tuple[Path, list[str]], options: argparse.Namespace) -> dict[str, Any]:
    started = time.monotonic()
    path, cases = family
    limits = Limits(options.timeout, options.limit)
    result = run_file("gpu", "ours", ROOT, path, limits, [], only=cases)
    failures: dict[str, Any] = {}
    for case in cases or [f"loading {path.name}"]:
        outcome = result.cases.get(case) or _not_run(result)
        if outcome["outcome"] != "passed":
            failures[case] = {**outcome, "cause": report.cause({"type": "Skipped", **outcome})}
    return {
        "n": max(len(cases), 1),
        "n_passed": max(len(cases), 1) - len(failures),
        "n_restarts": result.n_restarts,
        "seconds": round(time.monotonic() - started, 1),
        "failures": failures,
    }


def _not_run(result: Result) -> dict[str, Any]:
    return {"outcome": "failed", "type": "NotRun", "message": result.unloadable or "the family stopped", "at": ""}


def _table(families: dict[str, dict[str, Any]], seconds: float) -> str:
    lines = [f"{'family':22} {'cases':>6} {'pass':>6} {'fail':>6} {'new start':>9} {'s':>5}  most frequent cause"]
    for family, entry in sorted(families.items(), key=lambda item: item[1]["n_passed"] - item[1]["n"]):
        causes = [failure["cause"] for failure in entry["failures"].values()]
        first = max(sorted(set(causes)), key=causes.count) if causes else ""
        n_failed = entry["n"] - entry["n_passed"]
        lines.append(
            f"{family:22} {entry['n']:6} {entry['n_passed']:6} {n_failed:6} {entry['n_restarts']:9} "
            f"{entry['seconds']:5.0f}  {first[:60]}"
        )
    n, passed = (sum(entry[key] for entry in families.values()) for key in ("n", "n_passed"))
    lines.append(f"{'together':22} {n:6} {passed:6} {n - passed:6} {'':9} {seconds:5.0f}")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
