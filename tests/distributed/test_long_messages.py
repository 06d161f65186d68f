"""Long collectives of real processes, whose bytes the receiver may read in the sender's memory."""

from __future__ import annotations

import pytest
from distributed.processes import free_port, run, started, torchrun

COLLECTIVES = """
import numpy
n, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
dist.init_process_group()

def values(rank, count):
    return (numpy.arange(count, dtype=numpy.int64) * (2 * rank + 3)).astype(numpy.float32)

def same(found, right):
    assert numpy.array_equal(found.numpy(), right)

# Elements on both sides of what a long message is, and of the pieces in which it is read.
for count in (64 << 10, (512 << 10) - 1, (512 << 10) + 1, (1 << 20) + 2, 3 * (512 << 10) + 5):
    count -= count % n
    own, all_ = flow.tensor(values(rank, count)), [values(r, count) for r in range(n)]
    x = own.clone()
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    same(x, numpy.max(all_, axis=0))
    x = flow.empty(n * count)
    dist.all_gather_into_tensor(x, own)
    same(x, numpy.concatenate(all_))
    x = flow.empty(count)
    dist.all_to_all_single(x, own)
    part = count // n
    same(x, numpy.concatenate([a[rank * part : (rank + 1) * part] for a in all_]))
    x = flow.empty(part)
    dist.reduce_scatter_tensor(x, own, op=dist.ReduceOp.MIN)
    same(x, numpy.min(all_, axis=0)[rank * part : (rank + 1) * part])
    for root in range(n):
        x = own.clone()
        dist.broadcast(x, root)
        same(x, all_[root])
dist.destroy_process_group()
print("right")
"""


@pytest.mark.parametrize("n", [2, 3])
def test_values_of_long_collectives(n: int) -> None:
    port = free_port()
    for out, err in run(COLLECTIVES, [torchrun(rank, n, port) for rank in range(n)]):
        assert out.endswith("right\n"), err


LOOP = """
dist.init_process_group()
x = flow.ones(2 << 20)
print("ready", flush=True)
try:
    while True:
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
        dist.broadcast(x, 1)
except RuntimeError as error:
    print(error)
"""


def test_a_rank_that_is_killed_while_others_read_its_memory_is_named() -> None:
    port = free_port()
    with started(LOOP, [torchrun(rank, 2, port) for rank in range(2)]) as (survivor, victim):
        for process in (survivor, victim):
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        victim.kill()
        said, err = survivor.communicate(timeout=60)
        assert "rank 1" in said, (said, err)
