"""Workers that die, leave or are strangers; references that end; what is refused: nothing hangs and nothing stays."""

from __future__ import annotations

import itertools
import os
import pickle
from pathlib import Path

import oneflow
import pytest
from distributed.processes import free_port, run, torchrun
from oneflow.distributed import rpc
from oneflow.distributed.rpc import _meeting, _wire
from oneflow.distributed.rpc._references import Table

HEAD = """
from oneflow.distributed import rpc
rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
def sleep(seconds):
    time.sleep(seconds)
"""


def test_a_worker_that_dies_fails_the_calls_to_it() -> None:
    body = (
        HEAD
        + """
def die():
    os._exit(3)
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=n)
if rank == 0:
    waiting = rpc.rpc_async("worker1", sleep, args=(100,), timeout=0)
    rpc.rpc_async("worker1", die)
    for call in (waiting.wait, lambda: rpc.rpc_sync("worker1", sleep, args=(0,)), rpc.shutdown):
        try:
            call()
            print("went on")
        except RuntimeError as error:
            print("rank 1" in str(error))
else:
    time.sleep(100)
"""
    )
    port = free_port()
    (said, error), _ = run(body, [torchrun(rank, 2, port) for rank in range(2)])
    assert said.split() == ["True", "True", "True"], error


def test_a_worker_that_leaves_at_once() -> None:
    body = (
        HEAD
        + """
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=n)
if rank == 1:
    rpc.rpc_sync("worker0", sleep, args=(0,))
    rpc.shutdown(graceful=False)
    print("left")
else:
    try:
        for _ in range(1000):
            rpc.rpc_sync("worker1", sleep, args=(0.01,), timeout=5)
    except RuntimeError as error:
        print("failed")
    rpc.shutdown(graceful=False)
"""
    )
    port = free_port()
    (first, error), (second, _) = run(body, [torchrun(rank, 2, port) for rank in range(2)])
    assert (first.strip(), second.strip()) == ("failed", "left"), error


def test_a_shutdown_waits_for_calls_in_calls_and_workers_begin_again() -> None:
    body = (
        HEAD
        + """
seen = []
def note(hops):
    time.sleep(0.05)
    seen.append(hops)
    if hops:
        # Nobody waits for it.
        rpc.rpc_async((rank + 1) % n, note, args=(hops - 1,))
for round in range(3):
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=n)
    if rank == 0:
        rpc.rpc_async(1, note, args=(11,))
    rpc.shutdown()
    print(len(seen))
"""
    )
    port = free_port()
    said = [out.split() for out, _ in run(body, [torchrun(rank, 3, port) for rank in range(3)])]
    assert said == [["4", "8", "12"]] * 3


def test_references_end_on_their_owner_when_nobody_holds_them() -> None:
    body = (
        HEAD
        + """
import random, threading
from oneflow.distributed.rpc import _state
class Value:
    pass
def touch(reference, hops):
    if hops:
        return rpc.rpc_sync(random.randrange(n), touch, args=(reference, hops - 1))
    return reference
def size():
    return len(_state.agent().table)
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=n)
def work():
    for i in range(30):
        reference = rpc.remote(random.randrange(n), Value)
        for _ in range(3):
            reference = touch(reference, random.randrange(4))
        assert type(reference.to_here()) is Value
threads = [threading.Thread(target=work) for _ in range(3)]
[t.start() for t in threads]
[t.join() for t in threads]
deadline = time.monotonic() + 20
while size() and time.monotonic() < deadline:
    time.sleep(0.05)
print(size(), len(_state.agent().table._dropped_early))
rpc.shutdown()
"""
    )
    port = free_port()
    for said, error in run(body, [torchrun(rank, 3, port) for rank in range(3)], 120):
        assert said.split() == ["0", "0"], error


def test_long_messages_pass_each_other() -> None:
    body = (
        HEAD
        + """
import oneflow
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=n)
x = oneflow.arange(3_000_000, dtype=oneflow.float32) + rank
futures = [rpc.rpc_async((rank + 1) % n, oneflow.neg, args=(x + i,)) for i in range(6)]
small = [rpc.rpc_async((rank + 1) % n, max, args=(i, 0)) for i in range(200)]
print(all(oneflow.equal(f.wait(), -(x + i)) for i, f in enumerate(futures)), sum(f.wait() for f in small))
rpc.shutdown()
"""
    )
    port = free_port()
    for said, error in run(body, [torchrun(rank, 2, port) for rank in range(2)], 120):
        assert said.split() == ["True", "19900"], error


def test_workers_with_a_secret_of_the_job_and_without() -> None:
    body = (
        HEAD
        + """
try:
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=n,
                 rpc_backend_options=rpc.TensorPipeRpcBackendOptions(rpc_timeout=8))
    print(rpc.rpc_sync((rank + 1) % n, max, args=(1, 2)), os.environ.get("ONEFLOW_JOB_SECRET"))
    rpc.shutdown()
except RuntimeError as error:
    print("refused", str(error)[:500])
"""
    )
    port, secret = free_port(), "0123456789abcdef0123456789abcdef"
    own = [torchrun(rank, 2, port) for rank in range(2)]
    # The user's own secret is gone when the workers have met.
    assert [said.split() for said, _ in run(body, own)] == [["2", "None"]] * 2
    own = [{**torchrun(rank, 2, free), "ONEFLOW_JOB_SECRET": secret} for free in [free_port()] for rank in range(2)]
    assert [said.split() for said, _ in run(body, own)] == [["2", secret]] * 2
    own = [
        {**torchrun(rank, 2, free), "ONEFLOW_JOB_SECRET": secret[rank:]} for free in [free_port()] for rank in range(2)
    ]
    assert all(said.startswith("refused") for said, _ in run(body, own))


def test_what_init_rpc_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "ONEFLOW_JOB_SECRET", "ONEFLOW_TRUST_RANKS", "ONEFLOW_INSECURE"):
        monkeypatch.delenv(name, raising=False)

    def refused(kind: type[Exception], words: str, **given: object) -> None:
        with pytest.raises(kind, match=words):
            rpc.init_rpc(**{"name": "worker0", "rank": 0, "world_size": 1, **given})  # type: ignore[arg-type]

    refused(RuntimeError, "letters, digits", name="a name")
    refused(RuntimeError, "letters, digits", name="x" * 128)
    refused(TypeError, "BackendType", backend="tensorpipe")
    refused(TypeError, "RpcBackendOptions", rpc_backend_options={})
    refused(NotImplementedError, "do not come and go", world_size=None)
    options = rpc.TensorPipeRpcBackendOptions(device_maps={"nobody": {"cuda:0": "cuda:0"}})
    refused(ValueError, "invalid target node", rpc_backend_options=options)
    monkeypatch.setenv("ONEFLOW_TRUST_RANKS", "0")
    refused(RuntimeError, "not trusted")
    monkeypatch.delenv("ONEFLOW_TRUST_RANKS")
    monkeypatch.setenv("ONEFLOW_INSECURE", "1")
    refused(RuntimeError, "ONEFLOW_INSECURE=1")
    monkeypatch.delenv("ONEFLOW_INSECURE")
    assert not rpc._is_current_rpc_agent_set()
    for call in (
        rpc.shutdown,
        rpc.get_worker_info,
        lambda: rpc.rpc_sync("worker0", max, args=(1, 2)),
        lambda: rpc.RRef(1),
    ):
        with pytest.raises(RuntimeError, match="RPC has not been initialized"):
            call()
    rpc.init_rpc("worker0", rank=0, world_size=1)
    try:
        refused(RuntimeError, "already initialized")
        with pytest.raises(ValueError, match="timeout"):
            rpc.rpc_sync("worker0", max, args=(1, 2), timeout=-5)
        with pytest.raises((AttributeError, pickle.PicklingError), match="pickle"):
            rpc.rpc_sync("worker0", lambda: 1)
    finally:
        rpc.shutdown()


def test_exceptions_keep_their_class() -> None:
    body = (
        HEAD
        + """
class Own(Exception):
    pass
class Awkward(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)
def fail(kind, *args):
    raise kind(*args)
def local():
    class Local(Exception):
        pass
    raise Local("text")
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=n)
calls = [(fail, kind, "text") for kind in (KeyError, ZeroDivisionError, FileNotFoundError, Own, SystemExit)]
for function, *args in [*calls, (fail, Awkward, "text", 2), (local,)]:
    for call in (rpc.rpc_sync, lambda *a: rpc.rpc_async(*a).wait(), lambda *a: rpc.remote(*a).to_here()):
        try:
            call((rank + 1) % n, function, args)
        except Exception as error:
            print(type(error).__name__, "text" in str(error), end=" ")
rpc.shutdown()
"""
    )
    names = [
        "KeyError",
        "ZeroDivisionError",
        "FileNotFoundError",
        "Own",
        "RuntimeError",
        "RuntimeError",
        "RuntimeError",
    ]
    port = free_port()
    for said, error in run(body, [torchrun(rank, 2, port) for rank in range(2)]):
        assert said.split() == [word for name in names for word in [name, "True"] * 3], error


def test_two_workers_of_one_name_are_refused() -> None:
    body = (
        HEAD
        + """
try:
    rpc.init_rpc("worker", rank=rank, world_size=n)
except RuntimeError as error:
    print("several are called worker" in str(error))
"""
    )
    port = free_port()
    assert [said.strip() for said, _ in run(body, [torchrun(rank, 2, port) for rank in range(2)])] == ["True"] * 2


def test_a_secret_s_file_is_the_user_s_own(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("ab" * _meeting._SECRET_BYTES)
    path.chmod(0o600)
    assert _meeting._read(str(path).encode()) == "ab" * _meeting._SECRET_BYTES
    link, pipe, short, shared = (tmp_path / name for name in ("link", "pipe", "short", "shared"))
    link.symlink_to(path)
    os.mkfifo(pipe, 0o600)
    short.write_text("ab")
    short.chmod(0o600)
    shared.write_text("ab" * _meeting._SECRET_BYTES)
    shared.chmod(0o644)
    for wrong in (link, pipe, short, shared, tmp_path, tmp_path / "none", "a\0b"):
        with pytest.raises(RuntimeError, match="without a secret all workers run on one machine, as one user"):
            _meeting._read(str(wrong).encode())


def test_headers_are_checked_before_they_are_used() -> None:
    header = _wire.Header(_wire.Kind.CALL, 7, 100, 1, 2, 3)
    assert _wire.Header.unpack(bytes(header.pack())) == header
    for kind, n_bytes in ((0, 5), (9, 5), (1, 0), (4, 8), (1, _wire.MAX_BYTES + 1), (2, 2**64 - 1)):
        with pytest.raises(ValueError):
            _wire.Header.unpack(_wire._HEADER.pack(kind, 1, n_bytes, 0, 0, 0))


@pytest.mark.parametrize("order", range(24))
def test_holders_that_come_and_go_in_any_order(order: int) -> None:
    """Two holders, each of which begins and ends once: the value goes when both have ended, whatever comes first."""
    table = Table()
    events = list(itertools.permutations([("hold", 1), ("drop", 1), ("hold", 2), ("drop", 2)]))[order]
    for what, holder in events:
        getattr(table, what)(5, holder)
    assert len(table) == 0 and not table._dropped_early


def test_tensors_on_gpus_need_a_place() -> None:
    options = rpc.TensorPipeRpcBackendOptions(device_maps={"a": {"cuda:0": "cuda:1"}})
    options.set_device_map("a", {"cuda:1": "cuda:0"})
    assert options.device_maps["a"] == {
        oneflow.device("cuda:0"): oneflow.device("cuda:1"),
        oneflow.device("cuda:1"): oneflow.device("cuda:0"),
    }
    for pairs in ({"cuda:0": "cuda:2"}, {"cuda:2": "cuda:1"}):
        with pytest.raises(ValueError, match="1-to-1"):
            options.set_device_map("a", pairs)
    with pytest.raises(ValueError, match="CUDA devices"):
        rpc.TensorPipeRpcBackendOptions(devices=["cpu"])
