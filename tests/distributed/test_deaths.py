"""What is left when launchers, stores and ranks are killed: no process, no shared memory, and nobody who waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from distributed.processes import PREAMBLE, environment, free_port, started

TRAINS = """
import os, signal, sys
import oneflow as flow
import oneflow.distributed as dist
signal.signal(signal.SIGTERM, signal.SIG_IGN)
dist.init_process_group()
x = flow.ones(1 << 20)
dist.all_reduce(x)
open(os.path.join(sys.argv[1], os.environ["RANK"]), "w").write(str(os.getpid()))
while True:
    dist.all_reduce(x)
"""


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids: list[int], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while any(map(is_alive, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(is_alive, pids))


def pids_in(folder: Path, n: int, launcher: subprocess.Popen[str]) -> list[int]:
    end = time.monotonic() + 60
    while len(files := [p for p in folder.iterdir() if p.read_text()]) < n:
        assert launcher.poll() is None and time.monotonic() < end, launcher.communicate(timeout=10)
        time.sleep(0.05)
    return [int(p.read_text()) for p in files]


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends children of a process that is killed")
def test_a_launcher_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    """Neither ranks, which refuse the polite signal here, nor shared memory with a name."""
    script, folder = tmp_path / "train.py", tmp_path / "pids"
    script.write_text(TRAINS)
    folder.mkdir()
    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    command = [sys.executable, "-m", "oneflow.distributed.launch", "--nproc-per-node", "3", str(script), str(folder)]
    pipe = subprocess.PIPE
    launcher = subprocess.Popen(command, env=environment(), stdout=pipe, stderr=pipe, text=True)
    pids: list[int] = []
    try:
        pids = pids_in(folder, 3, launcher)
        launcher.kill()
        launcher.wait()
        assert gone(pids, 10), "ranks run without their launcher"
    finally:
        launcher.kill()
        launcher.communicate()
        for pid in filter(is_alive, pids):
            os.kill(pid, signal.SIGKILL)
    left = set(os.listdir("/dev/shm")) - before if os.path.isdir("/dev/shm") else set()
    assert not [name for name in left if "oneflow" in name]


STORE = """
store = dist.TCPStore("127.0.0.1", {port}, is_master=True, wait_for_workers=False)
print("ready", flush=True)
sys.stdin.readline()
"""
RANK = """
from datetime import timedelta
store = dist.TCPStore("127.0.0.1", {port}, is_master=False, timeout=timedelta(seconds=20))
dist.init_process_group("gloo", store=store, rank={rank}, world_size=2)
x = flow.ones(4)
dist.all_reduce(x)
print("ready", flush=True)
sys.stdin.readline()
began = time.monotonic()
y = flow.ones(4)
dist.all_reduce(y)
print("goes on", y.tolist(), flush=True)
try:
    dist.new_group([0, 1])
    dist.all_reduce(y, group=dist.new_group([1, 0]))
    print("made", flush=True)
except (RuntimeError, OSError) as error:
    print("no group", str(error).replace(chr(10), " "), flush=True)
try:
    store.set("key", "value")
    print("stored", flush=True)
except (RuntimeError, OSError) as error:
    print("no store", str(error).replace(chr(10), " "), flush=True)
print(round(time.monotonic() - began, 1), flush=True)
os._exit(0)
"""


def test_ranks_train_on_when_their_store_dies_and_say_so_when_they_need_it() -> None:
    port = free_port()
    with started(STORE.format(port=port), [{}]) as (store,):
        assert store.stdout.readline() == "ready\n"  # type: ignore[union-attr]
        pipe = subprocess.PIPE
        ranks = [
            subprocess.Popen(
                [sys.executable, "-u", "-c", PREAMBLE + RANK.format(port=port, rank=rank)],
                env=environment(),
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                text=True,
            )
            for rank in range(2)
        ]
        try:
            for rank in ranks:
                assert rank.stdout.readline() == "ready\n", rank.communicate(timeout=10)  # type: ignore[union-attr]
            store.kill()
            store.wait()
            for rank in ranks:
                rank.stdin.write("\n")  # type: ignore[union-attr]
                rank.stdin.flush()  # type: ignore[union-attr]
            for rank in ranks:
                out, err = rank.communicate(timeout=60)
                lines = out.splitlines()
                assert lines[0] == "goes on [2.0, 2.0, 2.0, 2.0]", out + err
                assert lines[2].startswith("no store"), out + err
                assert float(lines[-1]) < 30, out
        finally:
            for rank in ranks:
                rank.kill()
                rank.communicate()
