"""A rank that is stopped, not dead, is named by all others in seconds; one that is only busy is waited for."""

from __future__ import annotations

import signal
import time

import pytest
from distributed.processes import free_port, started, torchrun

BODY = """
dist.init_process_group("gloo")
dist.barrier()
print("ready", flush=True)
sys.stdin.readline()
began = time.monotonic()
try:
    if dist.get_rank() == 2:
        # Holds the interpreter's lock for longer than others would wait for a heartbeat.
        {busy}
    x = flow.ones(4)
    {wait}
    print("well", x.tolist())
    # Who ends without a goodbye fails those that still wait for the busy rank.
    dist.destroy_process_group()
except RuntimeError as error:
    print(round(time.monotonic() - began, 1), str(error).replace(chr(10), " "))
os._exit(0)
"""
WAITS = {"all_reduce": "dist.all_reduce(x)", "recv": "dist.recv(x, 1 if dist.get_rank() == 0 else 0)"}


@pytest.mark.parametrize("wait", WAITS)
def test_a_stopped_rank_is_named_by_all_others(wait: str) -> None:
    port, n = free_port(), 3
    # The default is ten seconds; tests have less time.
    words = [{**torchrun(rank, n, port), "ONEFLOW_HEARTBEAT_TIMEOUT": 3} for rank in range(n)]
    with started(BODY.format(wait=WAITS[wait], busy="pass"), words) as ranks:
        for rank in ranks:
            assert rank.stdout.readline() == "ready\n", rank.stderr.read()  # type: ignore[union-attr]
        time.sleep(0.5)
        ranks[1].send_signal(signal.SIGSTOP)
        for rank in (0, 2):
            out, err = ranks[rank].communicate("\n", timeout=40)
            seconds, _, text = out.partition(" ")
            assert "rank 1 does not answer for 3 s: stopped" in text, out + err
            assert float(seconds) < 12, out


def test_a_busy_rank_is_waited_for() -> None:
    port, n = free_port(), 3
    words = [{**torchrun(rank, n, port), "ONEFLOW_HEARTBEAT_TIMEOUT": 1} for rank in range(n)]
    busy = "(lambda: 'a' * 3)(); import re; began and re.match(r'(a+)+$', 'a' * 26 + 'b')"
    with started(BODY.format(wait=WAITS["all_reduce"], busy=busy), words) as ranks:
        for rank in ranks:
            assert rank.stdout.readline() == "ready\n", rank.stderr.read()  # type: ignore[union-attr]
        for rank in ranks:
            rank.stdin.write("\n")  # type: ignore[union-attr]
            rank.stdin.flush()  # type: ignore[union-attr]
        for rank in ranks:
            out, err = rank.communicate(timeout=60)
            assert out == "well [3.0, 3.0, 3.0, 3.0]\n", out + err
