"""Ctrl-C in a wait or a trace, missing ranks, consecutive jobs, a killed launcher: nothing hangs."""

import os
import signal
import socket
import subprocess
import sys
import time

import oneflow as flow
import pytest
from oneflow._trace import source_locations

# A shell that runs tests in the background lets them ignore SIGINT, which their children inherit.
PREAMBLE = """import os, signal, sys, time
import oneflow as flow
dist = flow.distributed
SPLIT = flow.sbp.split(0)
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


def start(body, rank, n=2, port=None):
    """A rank of ``n`` that runs ``body``; without a launcher in between."""
    env = {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(n),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-u", "-c", PREAMBLE + body]
    return subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ends(process, seconds=60):
    out, err = process.communicate(timeout=seconds)
    return out, err


WAITS = {
    "all_reduce": "dist.all_reduce(flow.ones(4))",
    "barrier": "dist.barrier()",
    "work": "dist.broadcast(flow.ones(4), 1, async_op=True).wait()",
    "recv": "dist.recv(flow.ones(4), 1)",
    "global": "flow.ones(4).to_global(flow.placement('cpu', [0, 1]), flow.sbp.partial_sum).to_global(sbp=SPLIT)",
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_blocked_operation(wait):
    port = free_port()
    blocked = f"""
dist.init_process_group()
dist.barrier()
print('ready', flush=True)
started = time.monotonic()
try:
    {WAITS[wait]}
except KeyboardInterrupt:
    print('interrupted', time.monotonic() - started < 30)
os._exit(0)
"""
    idle = """
dist.init_process_group()
dist.barrier()
try:
    sys.stdin.readline()
    dist.all_reduce(flow.ones(2))
except RuntimeError as error:
    print(error)
os._exit(0)
"""
    first, second = start(blocked, 0, port=port), start(idle, 1, port=port)
    try:
        assert first.stdout.readline() == "ready\n", first.stderr.read()
        time.sleep(0.3)
        first.send_signal(signal.SIGINT)
        out, err = ends(first)
        assert out == "interrupted True\n", err
        out, err = second.communicate("\n", timeout=60)
        assert "interrupted" in out or "rank 0" in out, out + err
    finally:
        first.kill()
        second.kill()
        second.wait()


@pytest.mark.parametrize("rank", [0, 1])
def test_nobody_is_waited_for_longer_than_said(rank):
    body = """
started = time.monotonic()
try:
    dist.init_process_group(timeout=1.5)
except RuntimeError as error:
    print(1 < time.monotonic() - started < 15, error)
"""
    out, err = ends(start(body, rank, port=free_port()))
    assert out.startswith("True "), out + err


def test_a_job_may_follow_another_on_its_port_at_once():
    rounds = """
for n in range(6):
    # Now one rank is late, now the other.
    time.sleep(0.15 * ((n + dist.get_rank() if dist.is_initialized() else n + int(os.environ['RANK'])) % 2))
    dist.init_process_group(timeout=60)
    x = flow.ones(2) * (n + 1)
    dist.all_reduce(x)
    assert x.tolist() == [2 * (n + 1)] * 2
    dist.destroy_process_group()
print('well')
"""
    port = free_port()
    ranks = [start(rounds, rank, port=port) for rank in range(2)]
    for out, err in [ends(rank) for rank in ranks]:
        assert out == "well\n", err


def test_a_killed_launcher_leaves_nobody(tmp_path):
    script = tmp_path / "rank.py"
    script.write_text(
        "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "open(f'{sys.argv[1]}/{os.getpid()}', 'w').close()\ntime.sleep(120)\n"
    )
    (tmp_path / "pids").mkdir()
    command = [sys.executable, "-m", "oneflow.distributed.launch", "--nproc-per-node", "2", str(script)]
    launcher = subprocess.Popen([*command, str(tmp_path / "pids")])
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "pids").iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    pids = [int(path.name) for path in (tmp_path / "pids").iterdir()]
    assert len(pids) == 2
    launcher.kill()
    launcher.wait()
    while any(_runs(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_runs(pid) for pid in pids)


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Step(flow.nn.Graph):
    def build(self, x):
        for _ in range(20):
            x = x + 1
        return x


@pytest.mark.parametrize("after", [0, 7, 30])
def test_ctrl_c_in_a_trace_is_not_lost(monkeypatch, after):
    """Ctrl-C may come while the line of an op is looked for."""
    asked, look = [], source_locations.SourceLocations.__call__

    def interrupted(self):
        asked.append(None)
        if len(asked) == after + 1:
            raise KeyboardInterrupt
        return look(self)

    monkeypatch.setattr(source_locations.SourceLocations, "__call__", interrupted)
    if after == 30:
        assert Step()(flow.ones(2)).tolist() == [21, 21]
        return
    with pytest.raises(KeyboardInterrupt):
        Step()(flow.ones(2))
    assert Step()(flow.ones(2)).tolist() == [21, 21]


def test_a_line_that_cannot_be_determined_is_left_out(monkeypatch):
    def broken(self):
        raise ValueError("no line")

    monkeypatch.setattr(source_locations.SourceLocations, "__call__", broken)
    assert Step()(flow.ones(2)).tolist() == [21, 21]
