"""`python -m benches library`: forty models of timm and transformers on oneflow beside the same on PyTorch.

Each package runs in a process of its own, PyTorch in the environment of the tests, oneflow where PyTorch is not
installed; their samples alternate. The first numbers of the two are compared before anything is timed. With one
thread processor time counts, with more wall time, which needs cores that nobody else uses.

With `--engines` the models only infer, oneflow compiles them, and ONNX Runtime and OpenVINO run what PyTorch exports of
them: the ratio is to the better of the two.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from benches.library import engine
from benches.library.zoo import NAMES

ROOT = pathlib.Path(__file__).parents[2]


class Worker:
    """A process that builds and steps models. It stands still between calls.

    Threads of a pool that look for more work would take a core from who is measured next.
    """

    def __init__(self, who: str, python: pathlib.Path, folder: str, *paths: pathlib.Path) -> None:
        variables = os.environ | {
            "PYTHONPATH": f"{ROOT}:{ROOT / 'python'}",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_VERBOSITY": "error",
        }
        command = [python, "-m", "benches.library.worker", who, folder, *paths]
        self.log = pathlib.Path(folder, f"{who}.log").open("w+")
        self.process = subprocess.Popen(
            [str(part) for part in command],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )

    def __call__(self, do: str, **told: Any) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(json.dumps({"do": do, **told}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise SystemExit(f"the worker ended with {self.process.wait()}:\n{self.log.read()[-4000:]}")
        self.process.send_signal(signal.SIGSTOP)
        return dict(json.loads(line))

    def end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()


def environment(*command: str) -> pathlib.Path:
    made = subprocess.run([ROOT / ".ci" / command[0], *command[1:]], capture_output=True, text=True, check=True)
    return pathlib.Path(made.stdout.strip())


def packages_of(place: pathlib.Path) -> pathlib.Path:
    return next(place.glob("lib/python3*/site-packages"))


def reference_workers(folder: str, place: pathlib.Path, with_engines: bool) -> dict[str, Worker]:
    """PyTorch's worker, and the engines' where they are asked for, by name."""
    found = {"torch": Worker("theirs", pathlib.Path(sys.executable), folder, packages_of(place))}
    if with_engines:
        engines = environment("venv", str(ROOT / "benches" / "library" / "engine_requirements.txt"))
        torch_packages = packages_of(pathlib.Path(sys.prefix))
        for name in engine.NAMES:
            found[name] = Worker(name, engines / "bin" / "python", folder, torch_packages, packages_of(place))
    return found


def differ(ours: list[float], theirs: list[float]) -> float:
    """The largest difference, as a share of the largest number."""
    scale = max(1e-6, *map(abs, theirs))
    return max((abs(a - b) / scale for a, b in zip(ours, theirs, strict=True)), default=0.0)


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="benches library", description=__doc__)
    parser.add_argument("models", nargs="*", help="names of models; all forty by default")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--mode", nargs="+", choices=["train", "infer"], default=["train", "infer"])
    parser.add_argument("--compile", action="store_true", help="oneflow compiles, PyTorch does not")
    parser.add_argument("--engines", action="store_true", help="beside ONNX Runtime and OpenVINO")
    parser.add_argument("--isa", choices=["avx2"], help="both packages on this instruction set")
    parser.add_argument("--seconds", type=float, default=4, help="per row")
    args = parser.parse_args(arguments)
    if unknown := set(args.models) - set(NAMES):
        parser.error(f"unknown model {', '.join(sorted(unknown))}; known are {', '.join(NAMES)}")
    if args.isa:
        os.environ |= {"ONEFLOW_CPU_ISA": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
        os.environ |= {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}
    if args.engines:
        args.mode, args.compile = ["infer"], True
    place = environment("mock-venv")
    ratios: dict[str, list[float]] = {}
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        # oneflow is the last: it takes the weights that PyTorch left.
        workers = reference_workers(folder, place, args.engines)
        workers["oneflow"] = Worker("ours", place / "bin" / "python", folder)
        try:
            for name, mode, batch, threads in itertools.product(
                args.models or NAMES, args.mode, args.batch, args.threads
            ):
                row = f"{name}, {mode}, batch {batch}, {threads} thread{'s' if threads > 1 else ''}"
                told = {"name": name, "batch": batch, "mode": mode, "threads": threads, "processor_time": threads == 1}
                answers = {
                    who: worker("load", compiled=args.compile and who == "oneflow", **told)
                    for who, worker in workers.items()
                }
                if errors := [f"{who}: {a['error']}" for who, a in answers.items() if "error" in a]:
                    failed += 1
                    print(f"{row:60s} failed: {'; '.join(errors)}", flush=True)
                    continue
                difference = max(differ(a["first"], answers["torch"]["first"]) for a in answers.values())
                timed = {who: worker for who, worker in workers.items() if not args.engines or who != "torch"}
                samples: dict[str, list[float]] = {who: [] for who in timed}
                start = time.perf_counter()
                for worker in timed.values():
                    worker("sample", seconds=0.1)
                while len(samples["oneflow"]) < 3 or time.perf_counter() - start < args.seconds:
                    for who, worker in timed.items():
                        samples[who].append(worker("sample", seconds=args.seconds / 20)["seconds"])
                medians = {who: statistics.median(found) for who, found in samples.items()}
                ratio = medians["oneflow"] / min(t for who, t in medians.items() if who != "oneflow")
                said = "" if difference < 2e-3 else f"   differs by {difference:.1e}"
                times = " ".join(f"{t * 1e3:10.2f} ms" for t in medians.values())
                print(f"{row:60s} {times}   x{ratio:.3f}{said}", flush=True)
                for key in ("all", f"{mode}, {threads} thread{'s' if threads > 1 else ''}"):
                    ratios.setdefault(key, []).append(ratio)
        finally:
            for worker in workers.values():
                worker.end()
    reference = "the better engine" if args.engines else "PyTorch"
    for key, found in sorted(ratios.items()):
        print(
            f"{key}: geo-mean x{mean(found):.3f} of {reference}'s time over {len(found)} rows, at most {max(found):.3f}"
        )
    if failed:
        print(f"{failed} rows failed")


if __name__ == "__main__":
    main(sys.argv[1:])
