"""Extreme integers and empty tensors for every public op: each call returns or raises, quickly and in little memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("extreme_calls.py")
# After so many crashes or hangs the rest is not tried.
MOST_DEATHS = 5


def faults(*options):
    """Return the lines of calls that ended badly. If the process dies, the next one continues after that call."""
    start, found, deaths = 0, [], 0
    path = os.pathsep.join(map(str, (PROGRAM.parents[1], *sys.path)))
    env = {**os.environ, "PYTHONPATH": path, "RUST_BACKTRACE": "0"}
    while deaths < MOST_DEATHS:
        command = [sys.executable, str(PROGRAM), str(start), *options]
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        lines = done.stdout.splitlines()
        found += [line for line in lines if line.startswith("FAULT")]
        if lines and lines[-1] == "END":
            return found
        tried = [line for line in lines if line.startswith("CASE")]
        assert tried, f"the program does not start:\n{done.stderr}"
        found.append(f"died with {done.returncode}: {tried[-1]}")
        start, deaths = int(tried[-1].split()[1]) + 1, deaths + 1
    return found


def test_some_extremes_at_every_place():
    assert faults() == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_extremes_at_every_place():
    assert faults("all") == []
