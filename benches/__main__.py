"""`python -m benches [SECTION ...]`: oneflow beside PyTorch, one thread, ratios of medians.

`python -m benches library` is a program of its own: models of timm and transformers, each package in its own process.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from benches.cases import SECTIONS
from benches.graph import pairs as graph_pairs
from benches.measure import Report, count_processor_time, wait_by

NAMES = (*SECTIONS, "graph")


def processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def packages() -> tuple[Any, Any]:
    import oneflow
    import torch

    return torch, oneflow


def intel_path() -> None:
    """Start again with a library before all others whose one function tells MKL that it may use its fastest kernels."""
    if "mkl_intel_path" in os.environ.get("LD_PRELOAD", ""):
        return
    place = pathlib.Path(tempfile.mkdtemp()) / "mkl_intel_path.so"
    source = b"int mkl_serv_intel_cpu_true(void) { return 1; }"
    subprocess.run(["gcc", "-shared", "-fPIC", "-xc", "-", "-o", str(place)], input=source, check=True)
    os.environ["LD_PRELOAD"] = str(place)
    os.execv(sys.executable, [sys.executable, "-m", "benches", *sys.argv[1:]])


@contextlib.contextmanager
def grad_mode(on: bool, *modules: Any) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for m in modules:
            stack.enter_context(m.set_grad_enabled(on))
        yield


# The process ends with this when its device serves nobody any more.
BROKEN = 75
UNMADE = "a case that could not be made, and those after it"


def end_if_broken(oneflow: Any) -> None:
    """A fault on a GPU stays for the rest of a process: who started this one may start another for the other rows."""
    try:
        oneflow.cuda.synchronize()
    except RuntimeError:
        sys.exit(BROKEN)


def as_made(cases: Iterator[Any], report: Report) -> Iterator[Any]:
    """The cases of a section up to the first that cannot be made."""
    try:
        yield from cases
    except Exception as error:
        report.failed(UNMADE, error)


def main() -> None:
    if sys.argv[1:2] == ["library"]:
        from benches.library.__main__ import main as library

        library(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="benches", description=__doc__)
    parser.add_argument("sections", nargs="*", help=f"what to measure: {', '.join(NAMES)}; all by default")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--reference-device", help="PyTorch's device, where it is another one")
    parser.add_argument("--json", type=pathlib.Path, help="a file to which each row is added as a line of JSON")
    parser.add_argument("--resume", action="store_true", help="leave out the rows that are in that file")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="per case")
    parser.add_argument("--only", default="", help="cases with this text in their name")
    parser.add_argument("--isa", choices=["avx2"], help="both packages on this instruction set")
    parser.add_argument("--intel-path", action="store_true", help="PyTorch's MKL as on a processor of its maker")
    args = parser.parse_args()
    if args.isa:
        os.environ |= {"ONEFLOW_CPU_ISA": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
        os.environ |= {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}
    if args.intel_path:
        intel_path()
    if unknown := set(args.sections) - set(NAMES):
        parser.error(f"unknown section {', '.join(sorted(unknown))}")
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(args.threads)
    torch, oneflow = packages()
    torch.set_num_threads(args.threads)
    oneflow.set_num_threads(args.threads)
    beside = args.reference_device or args.device
    if args.device != "cpu":
        wait_by(*([torch.cuda.synchronize] if beside != "cpu" else []), oneflow.cuda.synchronize)
        print(oneflow.cuda.get_device_name(args.device), end=", ")
    print(f"{processor()}, {args.threads} thread(s), torch {torch.__version__}; columns: torch, oneflow, ratio")
    for name in args.sections or NAMES:
        report = Report(
            args.seconds, args.json, name, (lambda: end_if_broken(oneflow)) if args.device != "cpu" else None
        )
        done = report.names() if args.resume else set()
        count_processor_time(args.threads == 1 and args.device == "cpu" and name != "loader")
        if name == "graph":
            print("columns: our eager step, our compiled step, ratio")
            for made in as_made(graph_pairs(oneflow, args.device), report):
                if args.only in made[0] and made[0] not in done:
                    report.row(*made)
            report.total(name)
            continue
        for grad in (False, True) if name == "tiny" else (True,):
            with grad_mode(grad, torch, oneflow):
                pairs = zip(SECTIONS[name](torch, beside), SECTIONS[name](oneflow, args.device), strict=True)
                for (case, reference, *work), (_, ours, *_) in as_made(pairs, report):
                    named = case if name != "tiny" else f"{case}{', grad' if grad else ''}"
                    if args.only in case and named not in done:
                        report.row(named, reference, ours, *work)
        report.total(name)


if __name__ == "__main__":
    main()
