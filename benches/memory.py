"""`python -m benches.memory`: peak memory of training steps, each in its own process, less that after import."""

from __future__ import annotations

import argparse
import importlib
import os
import pathlib
import subprocess
import sys

from benches.models import models, training_step


def high_water_mark() -> int:
    """Most bytes this process has held."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


def child(package: str, name: str) -> None:
    framework = importlib.import_module(package)
    framework.set_num_threads(1)
    before = high_water_mark()
    step = training_step(framework, models(framework, "cpu")[name](), "cpu")
    for _ in range(3):
        step()
    print(high_water_mark() - before)


def peak(package: str, name: str) -> float:
    command = [sys.executable, "-m", "benches.memory", "--child", package, name]
    out = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    return int(out.stdout) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs=2, metavar=("PACKAGE", "NAME"), help=argparse.SUPPRESS)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    if args.child:
        return child(*args.child)
    import torch

    print("peak memory of three training steps over that after import, MB: torch, oneflow, ratio")
    for name in models(torch, "cpu"):
        if args.only in name:
            a, b = peak("torch", name), peak("oneflow", name)
            print(f"{name:48s} {a:9.1f} {b:9.1f}   x{b / a:.3f}", flush=True)
    return None


if __name__ == "__main__":
    main()
