"""Who may join a job: the secret, strangers at the ports of a job that trains, and what happens without a secret."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from distributed.processes import PREAMBLE, environment, free_port, run, started, torchrun

SECRET = "a secret of this test's own"

JOIN = """
try:
    dist.init_process_group("gloo", timeout=float(os.environ.get("LIMIT", 60)))
    x = flow.ones(2)
    dist.all_reduce(x)
    print(x.tolist())
except (RuntimeError, ValueError) as error:
    print(str(error).replace(chr(10), " "))
os._exit(0)
"""


def test_a_rank_with_another_secret_or_none_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    file.chmod(0o600)
    (good, wrong, none, other), limit = [free_port() for _ in range(4)], {"LIMIT": 8}
    words = [
        # The same secret from a file and from the environment.
        {**torchrun(0, 2, good), "ONEFLOW_JOB_SECRET": SECRET},
        {**torchrun(1, 2, good), "ONEFLOW_JOB_SECRET_FILE": file},
        {**torchrun(0, 2, wrong), "ONEFLOW_JOB_SECRET": SECRET, **limit},
        {**torchrun(1, 2, wrong), "ONEFLOW_JOB_SECRET": SECRET[::-1], **limit},
        {**torchrun(1, 2, none), **limit},
        {**torchrun(0, 2, none), "ONEFLOW_JOB_SECRET": SECRET, **limit},
        {**torchrun(0, 2, other), "ONEFLOW_JOB_SECRET": "short"},
    ]
    said = [out + err for out, err in run(JOIN, words)]
    assert said[0].startswith("[2.0, 2.0]") and said[1].startswith("[2.0, 2.0]"), said[:2]
    assert "their job secrets differ; set ONEFLOW_JOB_SECRET" in said[3], said[3]
    assert "from 127.0.0.1 with another job secret" in said[2] and "ranks [1] of 2 did not come" in said[2], said[2]
    assert "it refused this process, which has no job secret" in said[4], said[4]
    assert "without a job secret" in said[5], said[5]
    assert "ONEFLOW_JOB_SECRET has 5 characters; a secret has at least 16" in said[6]
    assert not any(SECRET in text for text in said)


def own_address() -> str | None:
    """An address of this host that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        found: str = probe.getsockname()[0]
    return None if found.startswith("127.") else found


def test_without_a_secret_ranks_meet_on_one_host_and_others_are_refused() -> None:
    address = own_address()
    if address is None:
        pytest.skip("this host has no address but loopback")
    port = free_port()
    words = [{**torchrun(rank, 2, port), "MASTER_ADDR": address} for rank in range(2)]
    for out, err in run(JOIN, words):
        assert out == "[2.0, 2.0]\n", out + err
    # A process in a network of its own is another host to the ranks; the file is a store that both can write.
    isolated = subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False)
    if isolated.returncode:
        pytest.skip("network namespaces are not allowed here")
    body = """
dist.init_process_group("gloo", init_method="file://" + os.environ["MEETING"], timeout=20.0, world_size=2,
                        rank=int(os.environ["PLACE"]))
"""
    meeting = f"/tmp/oneflow-meeting-{os.getpid()}"
    start = [[], ["unshare", "-rn"]]
    ranks = [
        subprocess.Popen(
            [*prefix, sys.executable, "-c", PREAMBLE + body],
            env=environment(MEETING=meeting, PLACE=place),
            stderr=subprocess.PIPE,
            text=True,
        )
        for place, prefix in enumerate(start)
    ]
    said = [rank.communicate(timeout=60)[1] for rank in ranks]
    os.unlink(meeting)
    for text in said:
        assert "are on two hosts" in text and "set ONEFLOW_JOB_SECRET" in text, text


TRAIN = """
import select
dist.init_process_group("gloo")
model = flow.nn.parallel.DistributedDataParallel(flow.nn.Linear(8, 1))
optimizer = flow.optim.SGD(model.parameters(), 0.01)
def train(n):
    for _ in range(n):
        optimizer.zero_grad()
        model(flow.ones(4, 8) * (1 + dist.get_rank())).sum().backward()
        optimizer.step()
    return float(next(model.parameters()).sum())
def peak():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) >> 10
before, _ = peak(), train(20)
print("trains", flush=True)
os.read(0, 1)
values = []
ended = flow.zeros(1)
while not ended.item():
    values.append(train(5))
    # Groups are formed while strangers are at the door.
    pair = dist.new_group([0, 1])
    dist.barrier(pair)
    dist.destroy_process_group(pair)
    # Rank 0 hears that the strangers have gone, and tells the others.
    if dist.get_rank() == 0 and select.select([0], [], [], 0)[0]:
        ended += 1
    dist.broadcast(ended, 0)
got = [None, None]
dist.all_gather_object(got, len(values))
class Config:
    pass
try:
    dist.broadcast_object_list([Config()])
    refused = "sent"
except Exception as error:
    refused = f"{type(error).__name__} {error}"
print(got, peak() - before, refused)
dist.barrier()
dist.destroy_process_group()
"""


def tag(purpose: bytes, *words: bytes) -> bytes:
    """A proof as the ranks make it, by Python's own HMAC."""
    said = b"".join(struct.pack("<Q", len(word)) + word for word in (b"oneflow job secret 1", purpose, *words))
    return hmac.new(SECRET.encode(), said, hashlib.sha256).digest()


def prove(port: int, mine: bytes, proof: bytes | None = None) -> tuple[bytes, bytes, bytes]:
    """Begin a connection with the store; return its number, the proof that was sent, and its answer."""
    with socket.create_connection(("127.0.0.1", port), 20) as stream:
        stream.sendall(b"\x7a" + mine)
        theirs = stream.recv(32, socket.MSG_WAITALL)
        proof = proof or tag(b"a client of the store", mine, theirs)
        stream.sendall(proof)
        return theirs, proof, stream.recv(33, socket.MSG_WAITALL)


def test_strangers_do_not_disturb_a_job_that_trains() -> None:
    port = free_port()
    words = [{**torchrun(rank, 2, port), "ONEFLOW_JOB_SECRET": SECRET} for rank in range(2)]
    with started(TRAIN, words) as ranks, contextlib.ExitStack() as silent:
        for rank in ranks:
            assert rank.stdout.readline() == "trains\n", rank.stderr.read()  # type: ignore[union-attr]
        for rank in ranks:
            rank.stdin.write("\n")  # type: ignore[union-attr]
            rank.stdin.flush()  # type: ignore[union-attr]
        for _ in range(300):
            silent.enter_context(socket.create_connection(("127.0.0.1", port), 20))
        # Who knows the secret is let in, and what it said is worth nothing the next time.
        mine = os.urandom(32)
        theirs, proof, answer = prove(port, mine)
        assert answer == b"\x00" + tag(b"the store", mine, theirs)
        assert prove(port, mine, proof)[2] == b"\x01" + bytes(32)
        for words_ in (os.urandom(4096), b"\x01" + b"\xff" * 16, b"\x00\xce\xf7\x85\x3c\x0d1234", b"\x7a" * (1 << 20)):
            with socket.create_connection(("127.0.0.1", port), 20) as stream:
                try:
                    stream.sendall(words_)
                    heard = stream.recv(64)
                except OSError:
                    # The store may hang up at any time.
                    heard = b""
                assert heard in (b"", b"SECR") or len(heard) in (32, 64), heard
        ranks[0].stdin.write("\n")  # type: ignore[union-attr]
        ranks[0].stdin.flush()  # type: ignore[union-attr]
        for number, rank in enumerate(ranks):
            out, err = rank.communicate(timeout=60)
            left, _, rest = out.partition("] ")
            grown, _, refused = rest.partition(" ")
            assert rank.returncode == 0 and int(left.split(",")[1]) > 0, out + err
            assert int(grown) < 200, out
            # Rank 0 reads nothing of others.
            assert refused.startswith("sent" if number == 0 else "UnpicklingError broadcast_object_list"), refused
