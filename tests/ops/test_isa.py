"""The tests of the whole table on every instruction set of this machine, each in its own process."""

import os
import pathlib
import platform
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent


def _available():
    if platform.machine() not in ("x86_64", "AMD64"):
        return ["baseline"]
    flags = pathlib.Path("/proc/cpuinfo").read_text().split("flags", 1)[-1].split("\n", 1)[0].split()
    tiers = [("amx", "amx_bf16"), ("avx512bf16", "avx512_bf16"), ("avx512", "avx512f"), ("avx2", "avx2")]
    return [isa for isa, flag in tiers if flag in flags] + ["baseline"]


# The best one is what the other tests of this folder run on.
@pytest.mark.parametrize("isa", _available()[1:])
def test_table_on(isa, capsys):
    with capsys.disabled():
        print(f" [kernels: {isa}]", end="", flush=True)
    environment = {**os.environ, "ONEFLOW_CPU_ISA": isa}
    # The forms share their kernels, and float64 and bool the instruction-set code of the others.
    chosen = "function and (float32 or bfloat16 or int64)"
    tests = [str(HERE / "test_table.py"), "-q", "-x", "-p", "no:cacheprovider", "-k", chosen]
    run = subprocess.run([sys.executable, "-m", "pytest", *tests], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-4000:]
