"""Messages between ranks: from any rank, with tags, of any length and order; what they promise as works and futures."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import oneflow
import oneflow.distributed as dist
import pytest
from distributed.processes import free_port, run, torchrun
from oneflow.testing import run_ranks

# Run by threads and by processes alike: each returns what must be true.


def any_source() -> None:
    here, n = dist.get_rank(), dist.get_world_size()
    if here:
        dist.send(oneflow.full((2,), float(here)), 0, tag=7)
        dist.send(oneflow.full((1,), 10.0 + here), 0)
        # Nothing is left of a message that came before it was asked for.
        dist.barrier()
        return
    seen, got = set(), oneflow.zeros(2)
    for _ in range(n - 1):
        source = dist.recv(got, tag=7)
        assert got.tolist() == [source] * 2
        seen.add(source)
    assert seen == set(range(1, n))
    # A receive that names its rank does not take another one's message, in whichever order they come.
    for source in reversed(range(1, n)):
        one = oneflow.zeros(1)
        assert dist.recv(one, source) == source and one.item() == 10 + source
    dist.barrier()


def posted_first() -> None:
    here, n = dist.get_rank(), dist.get_world_size()
    if here:
        dist.barrier()
        dist.send(oneflow.full((1,), float(here)), 0)
    else:
        slots = [oneflow.zeros(1) for _ in range(n - 1)]
        works = [dist.irecv(slot) for slot in slots]
        dist.barrier()
        for work, slot in zip(works, slots, strict=True):
            work.wait()
            assert slot.item() == work.source_rank()
        assert sorted(work.source_rank() for work in works) == list(range(1, n))
    dist.barrier()


def long_before_short() -> None:
    """A long message that nobody wants yet does not hold up a short one behind it."""
    here = dist.get_rank()
    if here == 0:
        works = [dist.isend(oneflow.ones(20 << 20), 1, tag=1), dist.isend(oneflow.ones(3), 1, tag=2)]
        for work in works:
            work.wait()
    elif here == 1:
        short, long = oneflow.zeros(3), oneflow.zeros(20 << 20)
        dist.recv(short, 0, tag=2)
        dist.recv(long, 0, tag=1)
        assert short.tolist() == [1.0] * 3 and bool((long == 1).all())
    dist.barrier()


def within_a_group() -> None:
    here, n = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(list(range(1, n)))
    if here == 0:
        return
    if here == n - 1:
        dist.send(oneflow.ones(1), group=group, group_dst=0)
    elif here == 1:
        # Ranks are named by their numbers in the world.
        assert dist.recv(oneflow.zeros(1), group=group) == n - 1


def both_ways() -> None:
    """Everybody sends to everybody at once, short and long, in two groups and with two tags."""
    here, n = dist.get_rank(), dist.get_world_size()
    other = dist.new_group(list(range(n)))
    ops, expected = [], []
    for peer in (rank for rank in range(n) if rank != here):
        for i, (count, group) in enumerate(((7, None), (700_000, other), (300_000, None))):
            ops.append(dist.P2POp(dist.isend, oneflow.arange(count) * (here + 1) + i, peer, group, tag=i))
            ops.append(dist.P2POp(dist.irecv, oneflow.zeros(count, dtype=oneflow.int64), peer, group, tag=i))
            expected.append((ops[-1].tensor, oneflow.arange(count) * (peer + 1) + i))
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert all(oneflow.equal(got, should) for got, should in expected)
    dist.barrier()


def leaves() -> None:
    """Who waits for any rank is told when there is none left."""
    if dist.get_rank():
        return
    with pytest.raises(RuntimeError, match=r"all other ranks have left|has left the group"):
        dist.recv(oneflow.zeros(1))


CASES = [any_source, posted_first, long_before_short, within_a_group, both_ways]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_between_threads(case: Any) -> None:
    run_ranks(3, case)


def test_between_processes() -> None:
    names = [case.__name__ for case in CASES]
    body = f"""
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from distributed import test_messages
dist.init_process_group("gloo")
for name in {names}:
    getattr(test_messages, name)()
dist.barrier()
test_messages.leaves()
print("well")
"""
    port = free_port()
    for out, err in run(body, [torchrun(rank, 3, port) for rank in range(3)]):
        assert out == "well\n", err


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: dist.send(x), "isend: give one of dst and group_dst"),
        (lambda x: dist.send(x, 1, group_dst=1), "isend: give one of dst and group_dst"),
        (lambda x: dist.send(x, dist.get_rank()), "dst is this rank itself"),
        (lambda x: dist.recv(x, group_src=5), "group_src is 5, but the group has 2 ranks"),
        (lambda x: dist.broadcast(x, 0, group_src=0), "broadcast: give one of src and group_src"),
        (lambda x: dist.reduce(x, group_dst=2), "reduce: group_dst is 2"),
    ],
)
def test_a_peer_that_cannot_be_is_refused(call: Any, text: str) -> None:
    def rank() -> None:
        with pytest.raises(ValueError, match=text):
            call(oneflow.ones(1))

    run_ranks(2, rank)


def test_alone_there_is_nobody_to_hear_from() -> None:
    with pytest.raises(ValueError, match="no other rank"):
        dist.recv(oneflow.ones(1))


WORKS: dict[str, Any] = {
    "all_reduce": lambda x: dist.all_reduce(x, async_op=True),
    "broadcast": lambda x: dist.broadcast(x, async_op=True),
    "all_gather": lambda x: dist.all_gather([oneflow.zeros(2) for _ in range(2)], x, async_op=True),
    "reduce_scatter": lambda x: dist.reduce_scatter(x, [oneflow.ones(2)] * 2, async_op=True),
    "all_to_all": lambda x: dist.all_to_all([x, oneflow.zeros(2)], [oneflow.ones(2)] * 2, async_op=True),
    "barrier": lambda x: dist.barrier(async_op=True),
    "isend": lambda x: dist.isend(x, 1) if dist.get_rank() == 0 else dist.irecv(x, 0),
}


@pytest.mark.parametrize("name", WORKS)
def test_works_have_futures(name: str) -> None:
    def rank() -> None:
        x, called = oneflow.ones(2), []
        future = WORKS[name](x).get_future()
        then = future.then(lambda f: called.append(len(f.wait())) or "then")
        assert then.wait() == "then" and future.done()
        # Results are there, handed out, when callbacks run.
        assert called == [{"all_gather": 2, "all_to_all": 2, "barrier": 0}.get(name, 1)]
        if name == "all_gather":
            assert [t.tolist() for t in future.value()] == [[1.0, 1.0]] * 2

    run_ranks(2, rank)


def test_a_future_carries_the_error_of_its_work() -> None:
    def rank() -> None:
        work = dist.all_reduce(oneflow.ones(2 + dist.get_rank()), async_op=True)
        with pytest.raises(RuntimeError, match=r"out of step|aborted"):
            work.get_future().wait()
        assert not work.is_success() and isinstance(work.exception(), RuntimeError)
        raise KeyError("the end of this rank")

    with pytest.raises(KeyError):
        run_ranks(2, rank)


def test_operations_of_a_block_go_together() -> None:
    def rank() -> Any:
        a, b, c, d = oneflow.ones(2, 2), oneflow.full((3,), 2.0), oneflow.ones(2, dtype=oneflow.int64), oneflow.ones(1)
        whole = oneflow.zeros(4)
        with dist._coalescing_manager(async_ops=True) as manager:
            assert [dist.all_reduce(x) for x in (a, b, c, d)] == [None] * 4
            dist.all_gather_into_tensor(whole, oneflow.ones(2))
        manager.wait()
        strided = oneflow.zeros(2, 4)
        with dist._coalescing_manager():
            dist.all_reduce(strided[:, 0].contiguous())
            dist.all_gather(list(strided.split(2, 1)), oneflow.ones(2, 2))
            with pytest.raises(ValueError, match="non-empty op list"), dist._coalescing_manager():
                pass
        assert strided.tolist() == [[1.0] * 4] * 2
        return a.tolist(), b.tolist(), c.tolist(), d.tolist(), whole.tolist(), dist.wire_calls()["all_reduce"]

    expected = ([[2.0, 2.0]] * 2, [4.0] * 3, [2, 2], [2.0], [1.0] * 4, 4)
    assert run_ranks(2, rank) == [expected] * 2


def test_a_late_rank_is_named_after_a_while() -> None:
    body = """
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 1:
    time.sleep(3)
dist.all_reduce(flow.ones(1))
if dist.get_rank() == 1:
    time.sleep(2.5)
    dist.send(flow.ones(1), 0)
else:
    dist.recv(flow.ones(1), 1)
print("well")
"""
    port, started = free_port(), time.monotonic()
    found = run(body, [{**torchrun(rank, 2, port), "ONEFLOW_LATE_WARNING": 1} for rank in range(2)])
    assert [out for out, _ in found] == ["well\n"] * 2 and time.monotonic() - started < 50, found
    said = found[0][1]
    assert said.count("rank 0 waits in #1 all_reduce(float32, 1 elements, sum) of group 'world' for rank 1") == 1, said
    assert (
        said.count("recv(float32, 1 elements, tag 0) from rank 1 on rank 0 of group 'world' has waited for 1 s") == 1
    ), said
    assert "waits" not in found[1][1]
