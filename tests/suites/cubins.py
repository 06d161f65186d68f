"""`make cubins`: compiles GPU kernels ahead for a machine with a GPU, where the time to compile them is dear.

The tests of the GPU run on the emulated driver, whose compiler records every source that it receives; the sources are
then compiled by NVRTC for the architectures wanted, into a cache folder that `.ci/on-gpu` uses (``dist/cubin``). Texts
that only a certain GPU needs are not among them, and NVRTC there must be of the same release.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("make cubins", description=__doc__.partition("\n")[0])
    parser.add_argument("--arch", default="sm_90a", help="architectures, separated by commas (sm_90a)")
    parser.add_argument("--out", type=Path, default=ROOT / "dist/cubin", help="the folder of the cache (dist/cubin)")
    parser.add_argument("-k", dest="expression", help="only kernels of these tests, as pytest's -k")
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds for the tests of a family (1200)")
    options = parser.parse_args(arguments)
    texts = ROOT / "target/emulator/texts"
    texts.mkdir(parents=True, exist_ok=True)
    selection = ["-k", options.expression] if options.expression else []
    command = [sys.executable, "-m", "suites.gpu", "--emulated", "--limit", str(options.limit), *selection]
    # Kernels that the emulator has compiled before are in its own cache, and their texts in the folder.
    subprocess.run(command, env={**os.environ, "EMULATOR_RECORD": str(texts)}, check=False)
    recorded = sorted(texts.glob("*.json"))
    os.environ["ONEFLOW_CUBIN_CACHE"] = str(options.out.resolve())
    n, refused = compile_all(recorded, options.arch.split(","))
    size = sum(path.stat().st_size for path in options.out.glob("*.cubin")) / 2**20
    print(f"{n} kernels of {len(recorded)} texts in {options.out}, {size:.1f} MiB")
    for text in refused[:10]:
        print(f"refused: {text}")
    return 1 if refused or not n else 0


def compile_all(recorded: list[Path], archs: list[str]) -> tuple[int, list[str]]:
    """Put the code of every recorded text for every architecture into the cache; how many, and what was refused."""
    from oneflow import _oneflow

    def one(path: Path) -> str | None:
        text = json.loads(path.read_text())
        try:
            for arch in archs:
                _oneflow._cuda_compile(text["name"], path.with_suffix(".cu").read_text(), text["options"], arch)
        except RuntimeError as error:
            return str(error)[:300]
        return None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        refused = [error for error in pool.map(one, recorded) if error is not None]
    return (len(recorded) - len(refused)) * len(archs), refused


if __name__ == "__main__":
    raise SystemExit(main())
