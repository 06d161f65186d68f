"""Ranks as real processes: each runs a Python program under the environment that a test sets."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PREAMBLE = "import os, signal, sys, time\nimport oneflow as flow\nimport oneflow.distributed as dist\n"

# Variables of launchers: a test starts without them.
LAUNCHERS = (
    "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT ONEFLOW_ OMPI_ PMI_ PMIX_ MPI_LOCAL MV2_ "
    "SLURM_ PET_ JOB_COMPLETION_INDEX TORCHELASTIC_ GROUP_"
).split()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(**own: object) -> dict[str, str]:
    """This process's environment without any launcher's words, and ``own``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(tuple(LAUNCHERS))}
    return {**kept, "OMP_NUM_THREADS": "1", **{name: str(value) for name, value in own.items()}}


def torchrun(rank: int, n: int, port: int) -> dict[str, object]:
    """torchrun's words for a rank on one machine."""
    return {
        "RANK": rank,
        "WORLD_SIZE": n,
        "LOCAL_RANK": rank,
        "LOCAL_WORLD_SIZE": n,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }


@contextmanager
def started(body: str, environments: list[dict[str, object]]) -> Iterator[list[subprocess.Popen[str]]]:
    """Start a process for each environment; none is left when the block ends."""
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(
            [sys.executable, "-u", "-c", PREAMBLE + body],
            env=environment(**own),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )
        for own in environments
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.communicate()


def run(body: str, environments: list[dict[str, object]], seconds: float = 60) -> list[tuple[str, str]]:
    """Run all to their ends, and return what each wrote to standard output and to standard error."""
    with started(body, environments) as processes:
        return [process.communicate(timeout=seconds) for process in processes]
