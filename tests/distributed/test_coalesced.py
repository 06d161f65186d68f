"""Several tensors as one operation, and groups that go on without some of their ranks."""

from __future__ import annotations

import oneflow
import oneflow.distributed as dist
import pytest
from distributed.processes import free_port, run, torchrun
from oneflow.testing import run_ranks


@pytest.mark.parametrize("async_op", [False, True])
def test_each_tensor_is_reduced_and_neighbours_travel_together(async_op: bool) -> None:
    def rank() -> tuple[list[list[float]], int]:
        here = dist.get_rank()
        tensors = [oneflow.full((2, 2), here + 1.0), oneflow.full((3,), here + 0.5), oneflow.arange(4) * here]
        before = dist.wire_calls().get("all_reduce", 0)
        found = dist.all_reduce_coalesced(tensors, dist.ReduceOp.MAX, async_op=async_op)
        if async_op:
            assert found.wait()[0] is tensors[0]
        return [t.reshape(-1).tolist() for t in tensors], dist.wire_calls()["all_reduce"] - before

    # Two float32 together; int64 alone.
    assert run_ranks(3, rank) == [([[3.0] * 4, [2.5] * 3, [0, 2, 4, 6]], 2)] * 3


@pytest.mark.parametrize("async_op", [False, True])
def test_gathered_tensors_stand_by_rank_and_place(async_op: bool) -> None:
    def rank() -> list[list[object]]:
        here = dist.get_rank()
        inputs = [oneflow.full((2, 1), here + 0.5), oneflow.tensor([here, -here]), oneflow.full((3,), here + 0.25)]
        outputs = [[oneflow.empty_like(t) for t in inputs] for _ in range(dist.get_world_size())]
        found = dist.all_gather_coalesced(outputs, inputs, async_op=async_op)
        if async_op:
            found.wait()
        return [[t.tolist() for t in row] for row in outputs]

    expected = [[[[r + 0.5], [r + 0.5]], [r, -r], [r + 0.25] * 3] for r in range(3)]
    assert run_ranks(3, rank) == [expected] * 3


def test_bad_arguments_say_what_is_wrong() -> None:
    one = oneflow.ones(1)
    for call, error, words in (
        (lambda: dist.all_reduce_coalesced(one), TypeError, "must be a list of tensors"),
        (lambda: dist.all_reduce_coalesced([]), ValueError, "tensors is empty"),
        (lambda: dist.all_gather_coalesced([], [one]), RuntimeError, "equal to world size 1, got 0"),
        (lambda: dist.all_gather_coalesced([one], [one]), TypeError, "Invalid function argument.*output_tensor_lists"),
        (
            lambda: dist.all_gather_coalesced([[oneflow.ones(2)]], [one]),
            RuntimeError,
            r"size of output tensor at index 0",
        ),
        (lambda: dist.all_gather_coalesced([[one.long()]], [one]), RuntimeError, "invalid tensor type at index 0"),
        (lambda: dist.all_gather_coalesced([[one, one]], [one]), RuntimeError, "has 2 tensors, there are 1 inputs"),
        (lambda: dist.shrink_group([0]), ValueError, "all ranks of the group"),
        (lambda: dist.shrink_group([]), ValueError, "at least one"),
        (lambda: dist.shrink_group([3]), ValueError, "distinct ranks of a group of 1"),
    ):
        with pytest.raises(error, match=words):
            call()


def test_a_group_goes_on_without_a_rank_that_was_killed() -> None:
    body = (
        "dist.init_process_group('gloo')\n"
        "group, here = dist.new_group(), dist.get_rank()\n"
        "dist.barrier(group)\n"
        "if here == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "try: dist.all_reduce(flow.ones(1), group=group)\n"
        "except RuntimeError as error: assert 'rank 1 died' in str(error), error\n"
        "try: dist.shrink_group([1])\n"
        "except NotImplementedError: pass\n"
        "left = dist.shrink_group([1], group, dist.SHRINK_ABORT)\n"
        "x = flow.full((1,), here + 1.0)\n"
        "dist.all_reduce(x, group=left)\n"
        "print(x.item(), dist.get_process_group_ranks(left), flush=True)\n"
        "os._exit(0)\n"
    )
    port = free_port()
    outputs = run(body, [torchrun(rank, 3, port) for rank in range(3)])
    for rank in (0, 2):
        assert outputs[rank][0].strip() == "4.0 [0, 2]", outputs[rank][1]
