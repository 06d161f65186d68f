"""Collectives of uneven pieces, asynchronous ones, and batches of sends and receives: values by formula."""

from __future__ import annotations

import inspect
from typing import Any

import oneflow
import oneflow.distributed as dist
import pytest
from oneflow.testing import run_ranks

N = 3
ROWS = [[1, 0, 2], [2, 3, 0], [0, 1, 1]]  # Rows that rank i sends to rank j.


def rows(source: int, n: int, start: int = 0) -> oneflow.Tensor:
    """Rows that tell where they come from."""
    return 100.0 * source + oneflow.arange(2.0 * start, 2.0 * (start + n)).view(n, 2)


def finish(work: Any, is_async: bool) -> None:
    assert (work is not None) == is_async
    if is_async:
        assert work.wait() and work.is_completed() and work.exception() is None


def all_to_all_single(here: int, is_async: bool) -> Any:
    sent, received = ROWS[here], [ROWS[i][here] for i in range(N)]
    output = oneflow.zeros(sum(received), 2)
    finish(dist.all_to_all_single(output, rows(here, sum(sent)), received, sent, async_op=is_async), is_async)
    want = [rows(i, ROWS[i][here], sum(ROWS[i][:here])) for i in range(N)]
    return output, oneflow.cat(want)


def all_to_all(here: int, is_async: bool) -> Any:
    output = [oneflow.zeros(ROWS[i][here], 2) for i in range(N)]
    sent = [rows(here, ROWS[here][j], 10 * j) for j in range(N)]
    finish(dist.all_to_all(output, sent, async_op=is_async), is_async)
    return oneflow.cat(output), oneflow.cat([rows(i, ROWS[i][here], 10 * here) for i in range(N)])


def all_gather(here: int, is_async: bool) -> Any:
    output = [oneflow.zeros(i, 2) for i in range(N)]
    finish(dist.all_gather(output, rows(here, here), async_op=is_async), is_async)
    return oneflow.cat(output), oneflow.cat([rows(i, i) for i in range(N)])


def all_gather_into_strided(here: int, is_async: bool) -> Any:
    whole = oneflow.zeros(2, 2 * N)
    output = [whole[:, 2 * i : 2 * i + 2] for i in range(N)]
    finish(dist.all_gather(output, rows(here, 2).t(), async_op=is_async), is_async)
    return whole, oneflow.cat([rows(i, 2).t() for i in range(N)], 1)


def reduce_scatter(here: int, is_async: bool) -> Any:
    output = oneflow.zeros(here, 2)
    finish(dist.reduce_scatter(output, [rows(here, j) for j in range(N)], async_op=is_async), is_async)
    return output, sum(rows(i, here) for i in range(N))


def gather(here: int, is_async: bool) -> Any:
    output = [oneflow.zeros(2, 2) for _ in range(N)] if here == 1 else None
    finish(dist.gather(rows(here, 2), output, dst=1, async_op=is_async), is_async)
    want = [rows(i, 2) for i in range(N)]
    return (oneflow.cat(output), oneflow.cat(want)) if output else (want[0], want[0])


def scatter(here: int, is_async: bool) -> Any:
    output = oneflow.zeros(2, 2)
    parts = [rows(j, 2) for j in range(N)] if here == 2 else None
    finish(dist.scatter(output, parts, src=2, async_op=is_async), is_async)
    return output, rows(here, 2)


CASES = [all_to_all_single, all_to_all, all_gather, all_gather_into_strided, reduce_scatter, gather, scatter]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_pieces_may_differ(case: Any, is_async: bool) -> None:
    for found, expected in run_ranks(N, lambda: case(dist.get_rank(), is_async)):
        assert found.tolist() == expected.tolist()


def test_every_collective_of_tensors_may_be_asynchronous() -> None:
    names = (
        "all_reduce broadcast reduce all_gather all_gather_into_tensor reduce_scatter reduce_scatter_tensor all_to_all "
        "all_to_all_single gather scatter barrier"
    ).split()
    assert [n for n in names if "async_op" not in inspect.signature(getattr(dist, n)).parameters] == []


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: dist.all_to_all_single(x, x, [1, 1], [1, 2]), ValueError, "input_split_sizes"),
        (lambda x: dist.all_to_all_single(x, x, [4], [2, 2]), ValueError, "output_split_sizes.*4"),
        (lambda x: dist.all_to_all_single(x[:3], x), ValueError, "no multiple of 2 ranks"),
        (lambda x: dist.all_gather([x], x), ValueError, "all_gather: tensor_list has 1 tensors for 2 ranks"),
        (lambda x: dist.all_gather([x, x.int()], x), TypeError, r"tensor_list\[1\] has dtype"),
        (lambda x: dist.reduce_scatter(x, [x]), ValueError, "input_list has 1"),
        (lambda x: dist.all_to_all([x], [x]), ValueError, "all_to_all: input_tensor_list has 1"),
        (lambda x: dist.scatter(x, None, src=dist.get_rank()), ValueError, "needs a scatter_list"),
        (lambda x: dist.batch_isend_irecv([]), ValueError, "p2p_op_list"),
        (lambda x: dist.P2POp(dist.send, x, 0), ValueError, "Invalid ``op``"),
        (lambda x: dist.P2POp(dist.isend, x), ValueError, "one of peer and group_peer"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_sent(call: Any, error: type[Exception], text: str) -> None:
    def rank() -> None:
        with pytest.raises(error, match=text):
            call(oneflow.ones(4, 2))
        assert dist.wire_calls() == {}
        # The group is as it was.
        dist.barrier()

    run_ranks(2, rank)


def test_neighbours_exchange_in_one_batch() -> None:
    def rank() -> tuple[float, float]:
        here = dist.get_rank()
        left, right = (here - 1) % N, (here + 1) % N
        got = oneflow.zeros(2)
        ops = [
            dist.P2POp(dist.irecv, got[:1], left, tag=1),
            dist.P2POp(dist.irecv, got[1:], right, tag=2),
            dist.P2POp(dist.isend, oneflow.full((1,), float(here)), right, tag=1),
            dist.P2POp(dist.isend, oneflow.full((1,), float(here)), left, tag=2),
        ]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        return tuple(got.tolist())

    assert run_ranks(N, rank) == [(2.0, 1.0), (0.0, 2.0), (1.0, 0.0)]
