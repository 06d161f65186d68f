"""`python -m benches.memory`: peak memory of eager and compiled steps, each in its own process, over that at import."""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import pathlib
import subprocess
import sys

from benches.models import models, training_step
from benches.plans import graph


def high_water_mark() -> int:
    """Most bytes this process has held."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


def child(package: str, mode: str, name: str) -> None:
    framework = importlib.import_module(package)
    framework.set_num_threads(1)
    before = high_water_mark()
    made = models(framework, "cpu")[name]()
    if mode == "compiled":
        model, inputs, optimizer = made
        step = functools.partial(graph(framework, model, inputs, optimizer), *inputs)
    else:
        step = training_step(framework, made, "cpu")
    for _ in range(3):
        step()
    print(high_water_mark() - before)


def peak(package: str, mode: str, name: str) -> float:
    command = [sys.executable, "-m", "benches.memory", "--child", package, mode, name]
    out = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    return int(out.stdout) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs=3, metavar=("PACKAGE", "MODE", "NAME"), help=argparse.SUPPRESS)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    if args.child:
        return child(*args.child)
    import torch

    print("peak memory of three training steps over that after import: torch in MB, our eager step, our compiled step")
    for name in models(torch, "cpu"):
        if args.only in name:
            theirs = peak("torch", "eager", name)
            ours = [peak("oneflow", mode, name) / theirs for mode in ("eager", "compiled")]
            print(f"{name:48s} {theirs:9.1f}   " + "   ".join(f"x{r:.3f}" for r in ours), flush=True)
    return None


if __name__ == "__main__":
    main()
