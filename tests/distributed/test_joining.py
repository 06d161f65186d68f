"""init_process_group as PyTorch's programs call it, and stores as their ranks meet in them."""

from __future__ import annotations

import datetime
import threading
from pathlib import Path
from typing import Any

import oneflow.distributed as dist
import pytest
import torch.distributed as theirs
from distributed.processes import free_port, run

BODY = """
rank, n, port = int(sys.argv[1]) if len(sys.argv) > 1 else int(os.environ["PLACE"]), 2, int(os.environ["PORT"])
{init}
x = flow.full((3,), rank + 1.0)
dist.all_reduce(x)
print(dist.get_rank(), dist.get_world_size(), x.tolist())
dist.destroy_process_group()
"""

WAYS = {
    "tutorial": """
os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
dist.init_process_group("gloo", rank=rank, world_size=n)
""",
    "tcp": "dist.init_process_group('gloo', init_method=f'tcp://127.0.0.1:{port}', rank=rank, world_size=n)",
    "tcp with a query": "dist.init_process_group(init_method=f'tcp://127.0.0.1:{port}?rank={rank}&world_size={n}')",
    "file": "dist.init_process_group(init_method='file://' + os.environ['MEETING'], rank=rank, world_size=n)",
    "tcp store": """
store = dist.TCPStore("127.0.0.1", port, n, rank == 0)
dist.init_process_group("gloo", store=store, rank=rank, world_size=n)
""",
    "file store": """
store = dist.PrefixStore("job", dist.FileStore(os.environ["MEETING"], n))
dist.init_process_group("cpu:gloo", store=store, rank=rank, world_size=n)
""",
    "twice over a store": """
store = dist.TCPStore("127.0.0.1", port, n, rank == 0)
for _ in range(2):
    dist.init_process_group("gloo", store=store, rank=rank, world_size=n)
    dist.barrier()
    dist.destroy_process_group()
store.set(f"left/{rank}", "")
store.wait(["left/0", "left/1"])
dist.init_process_group("gloo", store=store, rank=rank, world_size=n)
""",
}


@pytest.mark.parametrize("way", WAYS)
def test_ranks_meet_as_the_program_says(way: str, tmp_path: Path) -> None:
    own = {"PORT": free_port(), "MEETING": tmp_path / "meeting"}
    found = run(BODY.format(init=WAYS[way]), [{**own, "PLACE": rank} for rank in range(2)])
    for rank, (out, err) in enumerate(found):
        assert out == f"{rank} 2 [3.0, 3.0, 3.0]\n", err


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"init_method": "tcp://127.0.0.1:80"}, ValueError, "give rank and world_size"),
        ({"init_method": "tcp://127.0.0.1", "rank": 0, "world_size": 2}, ValueError, "needs a host and a port"),
        ({"init_method": "etcd://h", "rank": 0, "world_size": 2}, ValueError, "is not supported"),
        ({"init_method": "file:///tmp/x?rank=1", "rank": 0, "world_size": 2}, ValueError, "rank is 0, but"),
        ({"rank": 0, "world_size": 2}, ValueError, "MASTER_ADDR, MASTER_PORT are not set"),
        ({"rank": 0}, ValueError, "WORLD_SIZE expected, but not set"),
        (
            {"init_method": "tcp://127.0.0.1:80", "rank": 2, "world_size": 2},
            ValueError,
            "rank is 2, but world_size is 2",
        ),
        ({"store": 3, "rank": 0, "world_size": 2}, TypeError, "store must be a Store, got int"),
        ({"backend": "nccl"}, RuntimeError, "backend 'nccl' is not available: CUDA is not available"),
        ({"backend": "cpu:gloo,cuda:nccl"}, RuntimeError, "backend 'nccl' is not available"),
        ({"backend": "cpu:nccl"}, ValueError, "'nccl' does not serve 'cpu'"),
        ({"backend": "cuda:mpi"}, ValueError, "'mpi' does not serve 'cuda'"),
        ({"pg_options": 1}, TypeError, "pg_options"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_said(arguments: dict[str, object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        dist.init_process_group(**arguments)  # type: ignore[arg-type]
    assert not dist.is_initialized()


def stores(tmp_path: Path, package: object) -> list[object]:
    tcp = package.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
    file = package.FileStore(str(tmp_path / package.__name__), 1)  # type: ignore[attr-defined]
    hash_ = package.HashStore()  # type: ignore[attr-defined]
    return [tcp, file, hash_, package.PrefixStore("p", package.HashStore())]  # type: ignore[attr-defined]


def use(store: object) -> list[object]:
    """Everything that can be done with a store, and what comes of it."""
    s, got = store, []
    s.set("a", "1")  # type: ignore[attr-defined]
    s.set("b", b"\x00\xff")  # type: ignore[attr-defined]
    got += [s.get("a"), s.get("b"), s.add("n", 5), s.add("n", -7), s.get("n")]  # type: ignore[attr-defined]
    got += [s.check(["a", "b"]), s.check(["a", "nope"]), s.num_keys()]  # type: ignore[attr-defined]
    got += [s.delete_key("a"), s.delete_key("a"), s.num_keys()]  # type: ignore[attr-defined]
    s.wait(["b"], datetime.timedelta(seconds=5))  # type: ignore[attr-defined]
    with pytest.raises(Exception, match=r"(?i)time|wait"):
        s.wait(["never"], datetime.timedelta(milliseconds=20))  # type: ignore[attr-defined]
    s.set_timeout(datetime.timedelta(milliseconds=20))  # type: ignore[attr-defined]
    got.append(s.timeout)  # type: ignore[attr-defined]
    with pytest.raises(Exception, match=r"(?i)time|wait"):
        s.get("never")  # type: ignore[attr-defined]
    return got


def test_stores_do_what_pytorch_s_do(tmp_path: Path) -> None:
    for mine, other in zip(stores(tmp_path, dist), stores(tmp_path, theirs), strict=True):
        name = type(mine).__name__
        # A file of PyTorch's counts a key of its own.
        mine_got, other_got = use(mine), use(other)
        if name == "FileStore":
            mine_got, other_got = ([v for v in got if not isinstance(v, int)] for got in (mine_got, other_got))
        assert mine_got == other_got, name
        mine.append("l", "ab")
        mine.append("l", b"c")
        mine.multi_set(["x", "y"], ["1", b"2"])
        assert (mine.get("l"), mine.multi_get(["x", "y"]), mine.has_extended_api()) == (b"abc", [b"1", b"2"], True)
        assert mine.compare_set("c", "x", "y") == b"x"
        assert mine.compare_set("c", "", "y") == mine.compare_set("c", "z", "w") == b"y"


def queues(store: Any) -> list[object]:
    """Queues, the list of keys and clones, and what comes of them."""
    short, got = datetime.timedelta(milliseconds=20), []
    store.set("word", "w")
    store.queue_push("q", "a")
    store.queue_push("q", b"\x00b")
    got += [sorted(store.list_keys()), store.queue_len("q"), store.check(["q"]), store.check(["word", "q"])]
    store.wait(["q"], short)
    got += [store.queue_pop("q"), store.queue_pop("q", False), store.queue_len("q"), store.check(["q"])]
    with pytest.raises(RuntimeError, match="empty") as caught:
        store.queue_pop("q", False)
    got.append(type(caught.value).__name__)
    other = store.clone()
    other.set_timeout(short)
    got += [type(other).__name__, other.get("word"), other.timeout]
    with pytest.raises(RuntimeError, match=r"(?i)wait timeout") as caught:
        other.queue_pop("q", block=True)
    got.append(type(caught.value).__name__)
    other.queue_push("q", "c")
    got += [store.queue_pop("q"), store.delete_key("q"), store.delete_key("word"), store.list_keys()]
    store.barrier("one", 1)
    with pytest.raises(RuntimeError, match=r"(?i)timeout"):
        store.barrier("two", 2, short)
    return got


def test_queues_of_stores_are_pytorch_s(tmp_path: Path) -> None:
    for mine, other in zip(stores(tmp_path, dist), stores(tmp_path, theirs), strict=True):
        if not isinstance(mine, dist.FileStore):
            assert queues(mine) == queues(other), type(mine).__name__
            continue
        for store, own in ((mine, []), (other, ["efcount/"])):
            store.set("word", "w")
            assert sorted(store.clone().list_keys()) == sorted(["word", *own])
            for call in (lambda s=store: s.queue_push("q", "a"), lambda s=store: s.queue_len("q")):
                with pytest.raises(NotImplementedError, match="queue support is not implemented"):
                    call()
    with pytest.raises(TypeError, match="queue_push: a value must be str or bytes, got int"):
        dist.HashStore().queue_push("q", 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="world_size must be positive, got 0"):
        dist.HashStore().barrier("b", 0)


def test_stores_of_both_packages_serve_each_other() -> None:
    mine = dist.TCPStore("127.0.0.1", 0, is_master=True)
    client = theirs.TCPStore("127.0.0.1", mine.port, is_master=False)
    client.set("k", "v")
    assert mine.get("k") == b"v"
    server = theirs.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    dist.TCPStore("127.0.0.1", server.port).set("k", "w")
    assert server.get("k") == b"w"
    for one, two in ((mine, client), (server, dist.TCPStore("127.0.0.1", server.port))):
        one.queue_push("q", "ab")
        assert (two.queue_len("q"), two.queue_pop("q"), two.list_keys()) == (1, b"ab", ["k"])
        two.queue_push("q", "cd")
        assert one.queue_pop("q") == b"cd"
        meets = threading.Thread(target=one.clone().barrier, args=("b", 2))
        meets.start()
        two.barrier("b", 2)
        meets.join()


def test_stores_refuse_what_they_cannot_do() -> None:
    with pytest.raises(TypeError, match="make a TCPStore"):
        dist.Store()
    with pytest.raises(ValueError, match="port must be from 0 to 65535"):
        dist.TCPStore("127.0.0.1", 70000)
    with pytest.raises(ValueError, match="store must be a Store, got None"):
        dist.PrefixStore("p", None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="store must be a Store, got int"):
        dist.PrefixStore("p", 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="2 keys and 1 values"):
        dist.HashStore().multi_set(["a", "b"], ["1"])
    with pytest.raises(RuntimeError, match="Timed out after"):
        dist.TCPStore("127.0.0.1", 0, world_size=2, is_master=True, timeout=0.2)
