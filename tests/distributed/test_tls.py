"""Jobs under TLS: what ranks do works, who listens on the wire reads nothing, a rank of another kind is refused."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import oneflow.distributed as dist
import pytest
from distributed.processes import environment, free_port, run, torchrun

SECRET = "a secret of this test's own"
CERTIFICATES = Path(__file__).parents[2] / "crates/comm/tests/certificates"
# Found on the wire where nothing is encrypted: of a tensor's bytes, and of names in the store. No other job on this
# machine sends them.
NUMBER = 1234.56789
RUN = "run-of-test-tls"

ALL = f"""
import numpy
dist.init_process_group("gloo")
rank, n = dist.get_rank(), dist.get_world_size()
secret = flow.full((5000,), {NUMBER})
total = secret * (rank + 1)
dist.all_reduce(total)
assert flow.allclose(total, secret * (n * (n + 1) / 2)), total
if rank == 0:
    for peer in range(1, n):
        dist.send(secret, peer)
else:
    heard = flow.zeros(5000)
    dist.recv(heard, 0)
    assert flow.equal(heard, secret)
works = [dist.isend(secret * rank, (rank + 1) % n), dist.irecv(total, (rank - 1) % n)]
[work.wait() for work in works]
assert flow.equal(total, secret * ((rank - 1) % n))
objects = [None] * n
dist.all_gather_object(objects, {{"rank": rank, "words": "said in private"}})
assert [o["rank"] for o in objects] == list(range(n))
pair = dist.new_group([0, 1])
if rank < 2:
    dist.broadcast(total, 0, group=pair)
flow.manual_seed(0)
model = flow.nn.parallel.DistributedDataParallel(flow.nn.Sequential(flow.nn.Linear(64, 256), flow.nn.Linear(256, 1)))
optimizer = flow.optim.SGD(model.parameters(), 1e-5)
for step in range(4):
    optimizer.zero_grad()
    x = flow.arange(n * 64, dtype=flow.float32).reshape(n, 64)[rank:rank + 1] / 64
    model(x).sum().backward()
    optimizer.step()
print("loss", [round(float(p.sum()), 4) for p in model.parameters()])
dist.barrier()
dist.destroy_process_group()
"""


def encrypted(**more: object) -> dict[str, object]:
    return {"ONEFLOW_TLS": 1, "ONEFLOW_JOB_SECRET": SECRET, **more}


def certificates(tmp_path: Path, name: str = "rank", authority: str = "authority") -> dict[str, object]:
    key = tmp_path / f"{name}.key"
    key.write_bytes((CERTIFICATES / f"{name}.key").read_bytes())
    key.chmod(0o600)
    pem = {"CA": CERTIFICATES / f"{authority}.pem", "CERT": CERTIFICATES / f"{name}.pem", "KEY": key}
    return {"ONEFLOW_TLS": 1, **{f"ONEFLOW_TLS_{part}": path for part, path in pem.items()}}


def job(n: int, **own: object) -> list[str]:
    """Run ``ALL`` on ``n`` processes, and return the lines that the ranks print."""
    port = free_port()
    said = run(ALL, [{**torchrun(rank, n, port), **own} for rank in range(n)])
    for out, err in said:
        assert out.startswith("loss"), out + err
    return [out for out, _ in said]


@pytest.mark.parametrize("n", [2, 4])
def test_everything_works_as_without(n: int, tmp_path: Path) -> None:
    plain = job(n, ONEFLOW_JOB_SECRET=SECRET)
    assert len(set(plain)) == 1
    # On sockets, and in shared memory with sockets that wake.
    assert job(n, **encrypted(ONEFLOW_COMM_SHM=0)) == plain
    assert job(n, **encrypted()) == plain
    assert job(n, **certificates(tmp_path), ONEFLOW_COMM_SHM=0, ONEFLOW_TLS_NAME="train.example") == plain


class Wire:
    """All that passes on the loopback interface, as a program with the right to listen sees it."""

    def __init__(self) -> None:
        try:
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
        except PermissionError:
            pytest.skip("this user may not listen on an interface")
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
        self.socket.bind(("lo", 0))
        self.heard = bytearray()
        self.thread = threading.Thread(target=self._listen)
        self.ended = False

    def _listen(self) -> None:
        self.socket.settimeout(0.1)
        while not self.ended:
            try:
                self.heard += self.socket.recv(1 << 17)
            except TimeoutError:
                pass

    def __enter__(self) -> Wire:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended = True
        self.thread.join()
        self.socket.close()


def test_who_listens_on_the_wire_reads_nothing() -> None:
    import struct

    words = [struct.pack("<f", NUMBER) * 8, b"said in private", f"oneflow/{RUN}/ticket/".encode()]
    found = {}
    for name, own in {"plain": {"ONEFLOW_JOB_SECRET": SECRET}, "tls": encrypted()}.items():
        with Wire() as wire:
            job(2, ONEFLOW_COMM_SHM=0, TORCHELASTIC_RUN_ID=RUN, **own)
        found[name] = [word in wire.heard for word in words]
        assert len(wire.heard) > 100_000
    assert found == {"plain": [True] * 3, "tls": [False] * 3}


class Relay:
    """Passes on what comes at a port of its own, and keeps it."""

    def __init__(self, port: int) -> None:
        self.to = port
        self.heard = bytearray()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            try:
                other = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                # The store is not there yet; the rank knocks again.
                one.close()
                continue
            for pair in ((one, other), (other, one)):
                threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while piece := one.recv(1 << 16):
                self.heard += piece
                other.sendall(piece)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def test_a_relay_before_the_store_reads_nothing() -> None:
    for own, is_read in ((encrypted(), False), ({"ONEFLOW_JOB_SECRET": SECRET}, True)):
        port = free_port()
        relay = Relay(port)
        said = run(ALL, [{**torchrun(0, 2, port), **own}, {**torchrun(1, 2, relay.port), **own}])
        relay.listener.close()
        assert all(out.startswith("loss") for out, _ in said), said
        assert len(relay.heard) > 1000 and (b"ticket/" in relay.heard) is is_read


JOIN = """
try:
    dist.init_process_group("gloo", timeout=float(os.environ.get("LIMIT", 60)))
    print("joined")
except (RuntimeError, ValueError) as error:
    print(str(error).replace(chr(10), " "))
os._exit(0)
"""


def test_a_rank_of_another_kind_is_refused_by_name(tmp_path: Path) -> None:
    limit: dict[str, object] = {"LIMIT": 6}
    secret: dict[str, object] = {"ONEFLOW_JOB_SECRET": SECRET}
    good = certificates(tmp_path)
    other = certificates(tmp_path, "of_stranger", "stranger")
    expired = certificates(tmp_path, "expired")
    cases = [
        # Of rank 0, which has the store, and of rank 1.
        (
            encrypted(),
            secret,
            "that uses no TLS, which this process demands",
            "it demands TLS, which this process does not use",
        ),
        (
            secret,
            encrypted(),
            "with TLS, which this process does not use",
            "it does not use TLS, which this process demands",
        ),
        (
            good,
            other,
            "from 127.0.0.1 that refuses this process, whose certificate",
            "a certificate that ONEFLOW_TLS_CA has not signed",
        ),
        (
            good,
            encrypted(),
            "uses certificates where this process has none, or",
            "perhaps one of both has certificates",
        ),
        ({"ONEFLOW_TLS": 1}, expired, "ONEFLOW_TLS=1 needs a job secret or certificates", "expired.pem' is expired"),
        (
            {"ONEFLOW_TLS_CA": "x"},
            {"ONEFLOW_TLS": "on"},
            "ONEFLOW_TLS_CA is set, but ONEFLOW_TLS is not",
            "is 'on', expected 0 or 1",
        ),
    ]
    ports = [free_port() for _ in cases]
    words = [
        {**torchrun(rank, 2, port), **case[rank], **limit}
        for port, case in zip(ports, cases, strict=True)
        for rank in range(2)
    ]
    said = [out + err for out, err in run(JOIN, words)]
    for i, case in enumerate(cases):
        assert case[2] in said[2 * i] and case[3] in said[2 * i + 1], (case, said[2 * i : 2 * i + 2])


def test_stores_of_a_program_are_encrypted_or_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    monkeypatch.setenv("ONEFLOW_TLS", "1")
    monkeypatch.setenv("ONEFLOW_JOB_SECRET", SECRET)
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    relay = Relay(store.port)
    client = dist.TCPStore("127.0.0.1", relay.port, is_master=False, wait_for_workers=False)
    client.set("a key", "a value")
    assert store.get("a key") == b"a value" and b"a key" not in relay.heard and len(relay.heard) > 500
    with pytest.raises(RuntimeError, match="does not use TLS, which this process demands"):
        dist.TCPStore("127.0.0.1", plain.port, is_master=False, wait_for_workers=False)


def test_the_launcher_s_flag(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os, oneflow, oneflow.distributed as dist\n"
        "dist.init_process_group()\nx = oneflow.ones(3)\ndist.all_reduce(x)\n"
        "os.write(1, f\"{os.environ['ONEFLOW_TLS']} {x.tolist()}\\n\".encode())\n"
    )
    command = [sys.executable, "-m", "oneflow.distributed.launch", "--tls", "--nproc-per-node", "2", str(script)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["1 [2.0, 2.0, 2.0]"] * 2


def test_a_store_of_torchrun_carries_addresses_and_is_warned_about(tmp_path: Path) -> None:
    torchrun_module = subprocess.run(
        [sys.executable, "-c", "import torch.distributed.run"], capture_output=True, check=False, timeout=120
    )
    if torchrun_module.returncode:
        pytest.skip("PyTorch's launcher is not installed here")
    script = tmp_path / "train.py"
    script.write_text(
        "import os, oneflow, oneflow.distributed as dist\n"
        "dist.init_process_group()\n"
        f"x = oneflow.full((5000,), {NUMBER})\ndist.all_reduce(x)\n"
        "os.write(1, f'sum {float(x[0]):.3f}\\n'.encode())\ndist.destroy_process_group()\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", str(script)]
    own = environment(**encrypted(ONEFLOW_COMM_SHM=0))
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["sum", "2469.136"] * 2, done.stdout
    assert done.stderr.count("is the launcher's and has no TLS") == 1, done.stderr
