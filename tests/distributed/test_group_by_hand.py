"""Groups that a program makes from a store: the same programs, run by PyTorch's gloo and by this package."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import oneflow
import oneflow.distributed as dist
import pytest
from distributed import twice
from distributed.processes import free_port
from oneflow.testing import run_ranks

N = 3
HEAD = """
from datetime import timedelta
store = dist.FileStore(meeting, n)
def options(kind, **values):
    made = kind()
    for name, value in values.items():
        setattr(made, name, value)
    return made
"""


def both(body: str, folder: Path, n: int = N) -> list[list[Any]]:
    """What each rank says, which is the same under PyTorch."""
    found = twice.both(HEAD + body, folder, n)
    assert found["oneflow"] == found["torch"]
    return found["oneflow"]


def test_lists_of_tensors(tmp_path: Path) -> None:
    body = """
group = dist.ProcessGroupGloo(store, rank, n)
assert (group.rank(), group.size()) == (rank, n)
def two(dtype=torch.int64):
    return [torch.tensor([2 * rank + 1, 5], dtype=dtype), torch.tensor([2 * rank + 2, 3], dtype=dtype)]
for op in ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"):
    given = two()
    group.allreduce(given, options(dist.AllreduceOptions, reduceOp=getattr(dist.ReduceOp, op))).wait()
    say(*given)
given = two(torch.float64)
group.allreduce_coalesced(given, dist.AllreduceCoalescedOptions()).wait()
say(*given)
for root in range(n):
    for place in (0, 1):
        given = two()
        group.broadcast(given, options(dist.BroadcastOptions, rootRank=root, rootTensor=place)).wait()
        say(*given)
# Tensors that are not dense, and more than one a rank.
wide = torch.arange(8.0).reshape(2, 2, 2) + rank
columns = [wide[0][:, 0], wide[1][:, 1]]
rows = [[torch.zeros(2) for _ in range(2 * n)] for _ in range(2)]
future = group.allgather(rows, columns).get_future()
future.wait()
say(*[t for row in future.value() for t in row])
line = [torch.zeros(2, 2)[:, 0] for _ in range(n)]
group.allgather([line], [columns[0]]).wait()
say(*line)
for root in range(n):
    mine, parts = torch.zeros(2), [torch.tensor([10.0 * root, r]) for r in range(n)]
    group.scatter([mine], [parts] if rank == root else [], options(dist.ScatterOptions, rootRank=root)).wait()
    places = [torch.zeros(2) for _ in range(n)]
    group.gather([places] if rank == root else [], [columns[0]], options(dist.GatherOptions, rootRank=root)).wait()
    total = torch.tensor([1.0 + rank])
    group.reduce([total], options(dist.ReduceOptions, rootRank=root, reduceOp=dist.ReduceOp.SUM)).wait()
    say(mine, *places, *([total] if rank == root else []))
x = torch.tensor([rank + 1.0])
group.allreduce(x).wait()
y = torch.tensor([rank + 1.0])
group.broadcast(y, root=1).wait()
say(x, y)
with torch.inference_mode():
    row = [torch.zeros(1) for _ in range(n)]
    future = group.allgather([row], [torch.tensor([rank + 0.5])]).get_future()
    future.wait()
    say(*row)
group.barrier().wait()
"""
    assert both(body, tmp_path)[0][-2] == [[6.0], [2.0]]


def test_bad_lists_say_what_pytorch_says(tmp_path: Path) -> None:
    body = """
group = dist.ProcessGroupGloo(store, rank, n)
one, double, long = torch.zeros(1), torch.zeros(1, dtype=torch.float64), torch.zeros(2)
other = (rank + 1) % n
Gather, Scatter, Broadcast = dist.GatherOptions, dist.ScatterOptions, dist.BroadcastOptions
calls = [
    (lambda: group.broadcast([one], options(Broadcast, rootRank=-1)), "invalid root rank"),
    (lambda: group.broadcast([one], options(Broadcast, rootRank=n)), "invalid root rank"),
    (lambda: group.broadcast([one], options(Broadcast, rootTensor=1)), "invalid root tensor"),
    (lambda: group.broadcast([one, double], options(Broadcast)), "invalid tensor type"),
    (lambda: group.broadcast([one, long], options(Broadcast)), "invalid tensor size"),
    (lambda: group.allreduce([], dist.AllreduceOptions()), "requires non-empty tensor list"),
    (lambda: group.allreduce([one, double], dist.AllreduceOptions()), "invalid tensor type"),
    (lambda: group.allreduce_coalesced([one, double], dist.AllreduceCoalescedOptions()), "must all have the same type"),
    (lambda: group.reduce([one, one], dist.ReduceOptions()), "requires a single-element tensor list"),
    (lambda: group.allgather([], []), "requires non-empty input tensor list"),
    (lambda: group.allgather([], [one]), "requires input/output tensor lists to have the same length"),
    (lambda: group.allgather([[one] * (n + 1)], [one]), "invalid output tensor list"),
    (lambda: group.allgather([[one, long, one]], [one]), "invalid tensor size"),
    (lambda: group.gather([], [], Gather()), "requires a single-element input tensor list"),
    (lambda: group.gather([], [one], options(Gather, rootRank=rank)), "requires a single-element output list"),
    (lambda: group.gather([[one] * 2], [one], options(Gather, rootRank=rank)), "Incorrect output list size 2"),
    (lambda: group.gather([[one] * n], [one], options(Gather, rootRank=other)), "requires empty output on non-root"),
    (lambda: group.scatter([], [], Scatter()), "requires a single-element output tensor list"),
    (lambda: group.scatter([one], [], options(Scatter, rootRank=rank)), "requires a single-element input list"),
    (lambda: group.scatter([one], [[one] * 4], options(Scatter, rootRank=rank)), "Incorrect input list size 4"),
    (lambda: group.scatter([one], [[one] * n], options(Scatter, rootRank=other)), "requires empty input on non-root"),
]
for call, words in calls:
    try:
        call()
        out.append(f"nothing in place of {words}")
    except RuntimeError as error:
        out.append(words if words in str(error) else f"{words}: {error}")
# No rank has sent anything.
total = torch.ones(1)
group.allreduce([total]).wait()
say(total)
"""
    (first, *_) = both(body, tmp_path)
    assert first[-1] == [[3.0]] and not any(" in place of " in text or ": " in text for text in first[:-1])


def test_groups_stand_beside_each_other_and_the_job(tmp_path: Path) -> None:
    body = """
dist.init_process_group("gloo", store=dist.PrefixStore("job", store), rank=rank, world_size=n)
# The ranks of this one are numbered from the other end, and two groups share one store.
back = dist.ProcessGroupGloo(dist.PrefixStore("back", store), n - 1 - rank, n, timedelta(seconds=60))
again = dist.ProcessGroupGloo(dist.PrefixStore("again", store), rank, n)
pair = None if rank == 2 else dist.ProcessGroupGloo(dist.PrefixStore("pair", store), rank, 2)
x, y, z = (torch.tensor([rank + 1.0]) for _ in range(3))
back.broadcast(x, root=0).wait()
again.broadcast(y, root=0).wait()
dist.all_reduce(z)
say(x, y, z)
if pair is not None:
    mine = torch.tensor([rank + 10.0])
    dist.all_reduce(mine, group=pair)
    say(mine)
# One without a backend of its own.
made = dist.ProcessGroup(dist.PrefixStore("made", store), rank, n)
made._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, n)
made._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
w = torch.tensor([rank + 100.0])
made.allreduce(w).wait()
dist.all_reduce(w, group=made)
say(w)
mixed = [torch.full((3,), rank + i, dtype=(torch.float32, torch.float32, torch.float64)[i % 3]) for i in range(7)]
dist._broadcast_coalesced(made, mixed, 24, 1)
say(*mixed)
out.append([made.rank(), made.size(), dist.get_world_size()])
dist.barrier(group=made)
dist.destroy_process_group()
v = torch.ones(1)
back.allreduce(v).wait()
say(v)
"""
    ranks = both(body, tmp_path)
    assert [rank[0] for rank in ranks] == [[[3.0], [1.0], [6.0]]] * 3 and ranks[2][1] == [[909.0]]


def test_options(tmp_path: Path) -> None:
    body = """
chosen = dist.ProcessGroupGloo._Options()
chosen._timeout = timedelta(seconds=50)
chosen._devices = [dist.ProcessGroupGloo.create_device(interface="lo")]
group = dist.ProcessGroupGloo(store, rank, n, chosen)
out.append(group.options._timeout.total_seconds())
group._set_default_timeout(timedelta(seconds=23))
out.append(group.options._timeout.total_seconds())
x = torch.ones(1)
group.allreduce(x).wait()
say(x)
"""
    assert both(body, tmp_path)[0] == [50.0, 23.0, [[3.0]]]


def test_stores_of_the_network_serve_too() -> None:
    port, results = free_port(), {}

    def rank(here: int) -> None:
        store = dist.TCPStore("127.0.0.1", port, 2, here == 0, timeout=timedelta(seconds=60))
        group = dist.ProcessGroupGloo(store, here, 2)
        x = oneflow.full((3,), here + 1.0)
        group.allreduce(x).wait()
        # Groups can be made of it.
        half = group.new_group([1, 0])
        half.broadcast(x, root=0).wait()
        results[here] = (x.tolist(), half.rank(), group.name())
        group.barrier().wait()

    threads = [threading.Thread(target=rank, args=(here,)) for here in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[here][:2] for here in range(2)] == [([3.0] * 3, 1), ([3.0] * 3, 0)]
    assert results[0][2] == results[1][2]


def test_futures_of_many_operations(tmp_path: Path) -> None:
    # References that a callback drops are given back when the next one has the interpreter.
    body = """
group = dist.ProcessGroupGloo(store, rank, n)
futures = []
for i in range(500):
    futures.append(group.allgather([[torch.tensor([-1]) for _ in range(n)]], [torch.tensor([i + rank])]).get_future())
for i, future in enumerate(futures):
    future.wait()
    assert [t.item() for t in future.value()] == [i + r for r in range(n)]
out.append("all")
"""
    assert both(body, tmp_path) == [["all"]] * N


def test_one_operation_may_have_less_time() -> None:
    def rank() -> str:
        group = dist.new_group([0, 1])
        if dist.get_rank() == 1:
            dist.barrier()
            return ""
        options = dist.AllreduceOptions()
        options.timeout = timedelta(milliseconds=50)
        with pytest.raises(RuntimeError, match="timed out") as error:
            group.allreduce([oneflow.ones(1)], options).wait()
        assert group.timeout() > 100
        dist.barrier()
        return str(error.value)

    assert "rank(s) [1]" in run_ranks(2, rank)[0]


def test_what_cannot_be_a_group_is_refused(tmp_path: Path) -> None:
    store = dist.HashStore()
    gloo = dist.ProcessGroupGloo
    for call, error, words in (
        (lambda: gloo(store, 2, 2), ValueError, "rank is 2, but world_size is 2"),
        (lambda: gloo(store, -1, 2), ValueError, "rank -1 of 2"),
        (lambda: gloo("store", 0, 1), TypeError, "got str"),
        (lambda: gloo(store, 0, 2, 0.2), RuntimeError, r"ranks \[1\] of 2 did not come"),
        (lambda: gloo(store, 0, 1, "soon"), TypeError, "timeout"),
        (lambda: gloo.create_device(interface="no0"), ValueError, "this machine has .*lo"),
        (lambda: gloo.create_device(hostname="no.such.name.invalid"), ValueError, "no.such.name.invalid"),
        (lambda: gloo.create_device(), ValueError, "give a hostname or an interface"),
        (lambda: type("Mine", (gloo,), {}), TypeError, "derive from ProcessGroup"),
        (lambda: dist.ProcessGroup(1), TypeError, "got 1 arguments"),
        (lambda: dist.ProcessGroup(store, 0, 1).allreduce([]), AttributeError, "_register_backend"),
        (
            lambda: dist.ProcessGroup(store, 0, 2)._register_backend("cpu", 1, gloo(store, 0, 1)),
            ValueError,
            "rank 0 of 2",
        ),
        (lambda: dist.ProcessGroup(store, 0, 1)._register_backend("cuda", 1, None), NotImplementedError, "cuda"),
    ):
        with pytest.raises(error, match=words):
            call()
    assert gloo.create_default_device().address == "127.0.0.1"


def test_a_rank_that_fails_ends_the_waiting_of_others_in_groups_of_the_program() -> None:
    texts: dict[int, str] = {}

    def rank() -> None:
        here = dist.get_rank()
        pair = dist.new_group([1, 2])
        try:
            if here == 2:
                raise ValueError("gives up")
            # Rank 0 waits in a group that it makes after that.
            dist.barrier(pair if here == 1 else dist.new_group([0, 2], use_local_synchronization=True))
        except RuntimeError as error:
            texts[here] = str(error)

    with pytest.raises(ValueError, match="gives up"):
        run_ranks(3, rank, timeout=60)
    assert all("ValueError: gives up" in texts[here] for here in (0, 1))
