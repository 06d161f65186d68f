"""``make suites SOURCE=DIR [ARGS=...]``: the tests of another project, from its checkout, on this build.

Kinds of checkout are known by their files: PyTorch's (its cases are first run on PyTorch itself, and only those that
pass there count), OneFlow's, and those of its libraries flowvision and LiBai. A file runs in separate processes; a
case that crashes or hangs costs itself.
Prints a table and the causes of the failures, and writes everything as JSON for the next run to be compared with.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from suites import old_tools, report
from suites.kinds import KINDS
from suites.runner import Limits, Result, evenly_spaced, run_file

HERE = Path(__file__).parent


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    source = options.source.resolve()
    kind = next((k for k in KINDS.values() if k.matches(source)), None)
    if kind is None:
        raise SystemExit(f"{source} holds no tests of PyTorch (test/test_torch.py), OneFlow, flowvision or LiBai")
    root = kind.files(source)
    own = kind.own() if hasattr(kind, "own") else {}
    names = [n for f in options.files for n in ([f] if f in own else _expand(root, f))] or kind.default(source)
    exclusions = report.Exclusions(HERE / f"{kind.name}.toml")
    files: dict[str, dict[str, Any]] = {}

    def one(name: str) -> tuple[str, dict[str, Any]]:
        return name, _run(kind, source, own.get(name, root / name), name, options, exclusions)

    with ThreadPoolExecutor(options.jobs) as pool:
        for name, entry in pool.map(one, names):
            files[name] = entry
            sys.stderr.write(f"{name}: {entry['n_passed']} of {entry['n_counted']} ({entry['seconds']:.0f} s)\n")
    run = {
        "suite": kind.name,
        "arguments": options.selection,
        "samples": options.samples,
        "files": dict(sorted(files.items())),
    }
    out = options.json or Path("target/suites") / f"{kind.name}.json"
    before = json.loads(options.compare.read_text()) if options.compare else None
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(run, indent=1) + "\n")
    print(report.table(files))
    print("\nfailures by cause")
    print(report.causes(files, options.causes) or "none")
    if options.list:
        for name, entry in files.items():
            for case, result in sorted(entry["failures"].items()):
                print(f"{name}::{case}\n    {result['type']}: {result['message'][:400]}  [{result['at']}]")
    if before is not None:
        print("\nbeside the other run")
        print(report.difference(before, run))
    print(f"\n{out}")
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("make suites", description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=Path, help="the checkout")
    parser.add_argument("files", nargs="*", help="files below its folder of tests, or patterns; all known ones if none")
    parser.add_argument("-k", dest="expression", help="only cases that match, as pytest's -k")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for a case (60)")
    parser.add_argument("--grace", type=float, default=15.0, help="seconds more, after which a case is killed (15)")
    parser.add_argument("--file-timeout", type=float, default=3600.0, help="seconds for a file on each side (3600)")
    parser.add_argument("--memory", type=int, default=0, help="gigabytes of address space for a process (no limit)")
    parser.add_argument("--ranks", type=int, default=1, help="processes that run each case together (OneFlow's tests)")
    parser.add_argument("--cases", type=int, default=0, help="at most so many cases a file, evenly spaced (0: all)")
    parser.add_argument("--samples", type=int, help="at most so many random samples a case (OneFlow's tests)")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="files at a time")
    parser.add_argument("--json", type=Path, help="where results go (target/suites/KIND.json)")
    parser.add_argument("--compare", type=Path, help="results of another run, to name the cases that changed")
    parser.add_argument("--causes", type=int, default=40, help="how many causes to print (40)")
    parser.add_argument("--list", action="store_true", help="print every failing case with its message")
    options = parser.parse_intermixed_args(arguments)
    if options.samples:
        os.environ[old_tools.SAMPLES] = str(options.samples)
    options.selection = ["-k", options.expression] if options.expression else []
    return options


def _expand(root: Path, name: str) -> list[str]:
    found = sorted(str(path.relative_to(root)) for path in root.glob(name) if path.is_file())
    found += sorted(str(path.relative_to(root)) for path in root.glob(f"{name}/**/test_*.py"))
    if not found:
        raise SystemExit(f"no file {name} below {root}")
    return found


def _run(kind: Any, source: Path, file: Path, name: str, options: Any, exclusions: report.Exclusions) -> dict[str, Any]:
    limits = Limits(options.timeout, options.file_timeout, options.memory, options.ranks, options.grace)
    started = time.monotonic()
    only: list[str] | None = None
    reference = Result()
    if "oracle" in kind.sides:
        if options.ranks > 1:
            raise SystemExit("--ranks is for OneFlow's tests: PyTorch's start their own processes")
        reference = _oracle(kind, source, file, limits, options.selection, options.cases)
        only = [c for c in reference.collected if reference.cases.get(c, {}).get("outcome") == "passed"]
    entry: dict[str, Any] = {"unloadable": reference.unloadable and f"on PyTorch: {reference.unloadable}"}
    left_out = {c: r for c in only or [] if (r := exclusions.of(name, c, None))}
    result = Result()
    if only is None or set(only) - set(left_out):
        to_run = None if only is None else [c for c in only if c not in left_out]
        result = run_file(kind.name, "ours", source, file, limits, options.selection, to_run)
    counted = to_run if only is not None and set(only) - set(left_out) else list(only or result.cases)
    if only is None:
        counted = [c for c in result.cases if result.cases[c]["outcome"] != "skipped"]
        left_out = {c: r for c in counted if (r := exclusions.of(name, c, None))}
    failures: dict[str, dict[str, Any]] = {}
    passes = []
    for case in counted:
        if case in left_out:
            continue
        outcome = result.cases.get(case) or _absent(result)
        if outcome["outcome"] == "passed":
            passes.append(case)
            continue
        if outcome["outcome"] == "skipped":
            outcome = {"type": "Skipped", "at": "", **outcome}
        reason = exclusions.of(name, case, outcome)
        if reason:
            left_out[case] = reason
        else:
            failures[case] = outcome
    skipped = [c for c, r in result.cases.items() if r["outcome"] == "skipped"] if only is None else []
    return {
        **entry,
        "unloadable": entry["unloadable"] or result.unloadable,
        "n_counted": len(passes) + len(failures),
        "n_passed": len(passes),
        "n_excluded": len(left_out),
        "n_skipped": len(skipped),
        "n_restarts": result.n_restarts,
        "missing_while_loading": result.missing,
        "seconds": round(time.monotonic() - started, 1),
        "passes": sorted(passes),
        "failures": {case: {**r, "cause": report.cause(r)} for case, r in sorted(failures.items())},
        "excluded": left_out,
    }


def _absent(result: Result) -> dict[str, Any]:
    if result.unloadable:
        return {"outcome": "failed", "type": "Unloadable", "message": result.unloadable, "at": ""}
    return {"outcome": "failed", "type": "NotCollected", "message": "the suite made no such case here", "at": ""}


def _oracle(kind: Any, source: Path, file: Path, limits: Limits, selection: list[str], n_cases: int) -> Result:
    """The outcomes on PyTorch, from the cache where they are known."""
    cache = _cache(kind, source, file)
    known = json.loads(cache.read_text()) if cache.is_file() else {"complete": False, "cases": {}}
    if known["complete"] and not selection:
        collected = evenly_spaced(list(known["cases"]), n_cases)
        return Result(collected=collected, cases=known["cases"], unloadable=known.get("unloadable"))
    result = run_file(kind.name, "oracle", source, file, limits, selection, done=known["cases"], n_cases=n_cases)
    # Cases that the file's time did not reach run the next time.
    reached = {case: r for case, r in result.cases.items() if r.get("type") != "TimeLimit"}
    complete = known["complete"] or not (selection or n_cases or len(reached) < len(result.cases))
    cache.parent.mkdir(parents=True, exist_ok=True)
    fresh = cache.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps({"complete": complete, "cases": reached, "unloadable": result.unloadable}))
    fresh.replace(cache)
    return result


def _cache(kind: Any, source: Path, file: Path) -> Path:
    """Named by what decides the outcomes: the file, the suite's helpers, what changes them, and the versions."""
    import importlib.metadata

    key = hashlib.sha256(file.read_bytes())
    for helper in [*sorted(kind.helpers(source).rglob("*.py")), HERE / "ranks.py"]:
        key.update(helper.read_bytes())
    key.update(f"{importlib.metadata.version('torch')} {sys.version_info[:2]}".encode())
    root = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return root / "oneflow/suites" / f"{kind.name}-{file.stem}-{key.hexdigest()[:16]}.json"


if __name__ == "__main__":
    raise SystemExit(main())
