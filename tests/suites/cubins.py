"""`make cubins`: compiles GPU kernels ahead for a machine with a GPU, where the time to compile them is dear.

The tests of the GPU run on the emulated driver, whose cache keeps the text of every kernel; the texts are then compiled
by NVRTC for the architectures wanted, into a cache folder that `.ci/on-gpu` uses (``dist/cubin``). Texts that only a
certain GPU needs are not among them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from suites import gpu

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("make cubins", description=__doc__.partition("\n")[0])
    parser.add_argument("--arch", default="sm_90a", help="architectures, separated by commas (sm_90a)")
    parser.add_argument("--out", type=Path, default=ROOT / "dist/cubin", help="the folder of the cache (dist/cubin)")
    parser.add_argument("-k", dest="expression", help="only kernels of these tests, as pytest's -k")
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds for the tests of a family (1200)")
    options = parser.parse_args(arguments)
    selection = ["-k", options.expression] if options.expression else []
    command = [sys.executable, "-m", "suites.gpu", "--emulated", "--limit", str(options.limit), *selection]
    subprocess.run(command, check=False)
    options.out.mkdir(parents=True, exist_ok=True)
    for path in gpu.emulated_cache(ROOT / "target/emulator").glob("*.text"):
        shutil.copy(path, options.out)
    os.environ["ONEFLOW_CUBIN_CACHE"] = str(options.out.resolve())
    from oneflow import cuda

    n = cuda.precompile(options.arch.split(","))
    size = sum(path.stat().st_size for path in options.out.glob("*.cubin")) / 2**20
    print(f"{n} kernels in {options.out}, {size:.1f} MiB")
    return 0 if n else 1


if __name__ == "__main__":
    raise SystemExit(main())
