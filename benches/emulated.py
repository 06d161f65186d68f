"""Starts a benchmark anew where the emulated GPU driver is found."""

from __future__ import annotations

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def start_again(module: str, arguments: list[str] | None, idle: int) -> None:
    """Replace this process by ``python -m module --started`` on an emulated device that does none of its work.

    ``idle``: 1, work is noted by name; 2, launches are not even looked at. The driver is found by its name, so the path
    to it has to be there when a process begins.
    """
    sys.path.insert(0, str(ROOT / "tests"))
    from suites.gpu import emulate

    emulate(ROOT / "target/emulator")
    os.environ["EMULATOR_SEED"], os.environ["EMULATOR_IDLE"] = "0", str(idle)
    given = sys.argv[1:] if arguments is None else arguments
    os.execv(sys.executable, [sys.executable, "-m", module, "--started", *given])
