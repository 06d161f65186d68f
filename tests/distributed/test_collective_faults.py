"""A rank that raises, returns or is slow in each collective and message: all others wait, or get an error that names
the operation, their own rank, the group and the rank that is missing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import oneflow
import oneflow.distributed as dist
import pytest
from oneflow.testing import run_ranks

N, ROOT = 3, 1


def ones(n: int = N) -> oneflow.Tensor:
    return oneflow.ones(n)


def lists() -> list[oneflow.Tensor]:
    return [ones() for _ in range(N)]


def at_root(value: Any) -> Any:
    return value if dist.get_rank() == ROOT else None


def coalesced() -> None:
    with dist._coalescing_manager():
        dist.all_reduce(ones())
        dist.all_reduce(ones())


# Each collective, and the operation of the group that it is, or begins with.
COLLECTIVES: dict[str, tuple[str, Callable[[], Any]]] = {
    "broadcast": ("broadcast", lambda: dist.broadcast(ones(), ROOT)),
    "all_reduce": ("all_reduce", lambda: dist.all_reduce(ones())),
    "all_reduce async": ("all_reduce", lambda: dist.all_reduce(ones(), async_op=True).wait()),
    "coalesced": ("all_reduce", coalesced),
    "reduce": ("reduce", lambda: dist.reduce(ones(), ROOT)),
    "all_gather": ("all_gather", lambda: dist.all_gather(lists(), ones())),
    "all_gather_into_tensor": ("all_gather", lambda: dist.all_gather_into_tensor(ones(N * N), ones())),
    "gather": ("gather", lambda: dist.gather(ones(), at_root(lists()), ROOT)),
    "scatter": ("scatter", lambda: dist.scatter(ones(), at_root(lists()), ROOT)),
    "reduce_scatter": ("reduce_scatter", lambda: dist.reduce_scatter(ones(), lists())),
    "reduce_scatter_tensor": ("reduce_scatter", lambda: dist.reduce_scatter_tensor(ones(1), ones())),
    "all_to_all": ("all_to_all", lambda: dist.all_to_all(lists(), lists())),
    "all_to_all_single": ("all_to_all", lambda: dist.all_to_all_single(ones(), ones())),
    "barrier": ("barrier", dist.barrier),
    "monitored_barrier": ("monitored_barrier: #0 barrier", dist.monitored_barrier),
    "all_gather_object": ("all_gather", lambda: dist.all_gather_object([None] * N, 1)),
    "gather_object": ("all_gather", lambda: dist.gather_object(1, at_root([None] * N), ROOT)),
    "broadcast_object_list": ("broadcast", lambda: dist.broadcast_object_list([1], ROOT)),
    "scatter_object_list": ("broadcast", lambda: dist.scatter_object_list([None], at_root([1] * N), ROOT)),
}


# A send to a rank that is still there is complete at once where ranks are threads.
MESSAGES: dict[str, tuple[str, Callable[[], Any]]] = {
    "recv": ("recv", lambda: dist.recv(ones(), ROOT)),
    "irecv": ("recv", lambda: dist.irecv(ones(), ROOT).wait()),
    "recv_object_list": ("recv", lambda: dist.recv_object_list([None], ROOT)),
    "batch": ("recv", lambda: dist.batch_isend_irecv([dist.P2POp(dist.irecv, ones(), ROOT)])[0].wait()),
}
ALL = COLLECTIVES | MESSAGES


def check(kind: str, call: Callable[[], Any], bad: int, ending: Callable[[], None], words: str) -> None:
    """``ending`` ends the rank ``bad``; each of the others must hear of it."""
    said: dict[int, str] = {}

    def rank() -> None:
        here = dist.get_rank()
        if here == bad:
            ending()
            return
        try:
            call()
        except RuntimeError as error:
            said[here] = str(error)

    try:
        run_ranks(N, rank)
    except KeyError:
        assert "aborted" in words
    assert sorted(said) == [r for r in range(N) if r != bad], said
    # The rank that first hears of it tells the others what it was in.
    told = rf"({words}|rank \d aborted: #0 .*{words})"
    for here, text in said.items():
        name = re.escape(kind) if kind.startswith("monitored") else f"#0 {kind}"
        assert re.fullmatch(rf"{name}\(.*\).* on rank {here} of group 'world': {told}", text), text


def raises() -> None:
    raise KeyError("boom")


@pytest.mark.parametrize("name", ALL)
def test_a_rank_that_raises_is_named_by_all_others(name: str) -> None:
    check(*ALL[name], ROOT, raises, f"rank {ROOT} aborted: KeyError: 'boom'")


@pytest.mark.parametrize("name", ALL)
def test_a_rank_that_returns_is_named_by_all_others(name: str) -> None:
    check(*ALL[name], ROOT, lambda: None, f"rank {ROOT} has left the group")


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_slow_rank_is_waited_for(name: str) -> None:
    def rank() -> float:
        if dist.get_rank() == ROOT:
            time.sleep(0.02)
        COLLECTIVES[name][1]()
        # The next collective is in step.
        x = ones(1)
        dist.all_reduce(x)
        return x.item()

    assert run_ranks(N, rank) == [float(N)] * N


def test_missing_ranks_of_a_monitored_barrier_are_named_with_its_place() -> None:
    said: dict[int, str] = {}

    def rank() -> None:
        here = dist.get_rank()
        try:
            if here == ROOT:
                # Leaves only after the others have given it up.
                dist.recv(ones(1), 0)
            else:
                dist.monitored_barrier(timeout=0.1)
        except RuntimeError as error:
            said[here] = str(error)

    run_ranks(N, rank)
    words = f"rank(s) {ROOT} of {N} did not arrive within 0.1 s"
    assert said[0] == f"monitored_barrier: on rank 0 of group 'world': {words}"
    assert said[2].startswith("monitored_barrier: #1 recv(") and words in said[2]
