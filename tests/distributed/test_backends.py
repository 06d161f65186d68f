"""Groups as objects, groups of groups, and backends that third parties bring."""

from __future__ import annotations

import warnings
from typing import Any

import oneflow
import oneflow.distributed as dist
import pytest
from distributed.processes import free_port, run, torchrun
from oneflow.testing import run_ranks

OUTSIDE = dist.GroupMember.NON_GROUP_MEMBER


def total(group: Any) -> float:
    x = oneflow.full((1,), 1.0 + dist.get_rank())
    dist.all_reduce(x, group=group)
    return x.item()


def test_groups_of_groups() -> None:
    def rank() -> Any:
        half = dist.split_group(None, [[3, 1], [0, 2]])
        # Within the group ranks have the order of the list, and parts of it are named by their places there.
        single = dist.split_group(half, [[1]])
        again = dist.split_group(half, [[1, 0]])
        pairs, _ = dist.new_subgroups(1, group=half)
        with pytest.raises(ValueError, match="stands in two parts"):
            dist.split_group(half, [[0], [0, 1]])
        with pytest.raises(ValueError, match="cannot be None or empty"):
            dist.split_group(half, [])
        with pytest.raises(TypeError, match="pg_options"):
            dist.split_group(half, [[0]], pg_options=1)
        alone = None if single == OUTSIDE else dist.get_process_group_ranks(single)
        return (
            dist.get_process_group_ranks(half),
            alone,
            dist.get_process_group_ranks(again),
            total(again),
            pairs.size(),
        )

    assert run_ranks(4, rank) == [
        ([0, 2], None, [2, 0], 4.0, 1),
        ([3, 1], [1], [1, 3], 6.0, 1),
        ([0, 2], [2], [2, 0], 4.0, 1),
        ([3, 1], None, [1, 3], 6.0, 1),
    ]


def test_members_alone_may_make_a_group() -> None:
    def rank() -> Any:
        here, got = dist.get_rank(), []
        for members in ([0, 1], [1, 2], [0, 1]):
            if here in members:
                group = dist.new_group(members, use_local_synchronization=True)
                got.append((total(group), dist.get_process_group_ranks(group)))
        assert dist.new_group([(here + 1) % 3], use_local_synchronization=True) == OUTSIDE
        # Groups that all make are numbered apart.
        got.append((total(dist.new_group([0, 2])), [])) if here != 1 else dist.new_group([0, 2])
        return got

    first = (3.0, [0, 1])
    assert run_ranks(3, rank) == [
        [first, first, (4.0, [])],
        [first, (5.0, [1, 2]), first],
        [(5.0, [1, 2]), (4.0, [])],
    ]


# A backend as a third party would write it: over a store, with PyTorch's interface.
BACKEND = '''
import pickle


class Work:
    def __init__(self, source=None):
        self.source = source

    def wait(self, timeout=None):
        return True

    def is_completed(self):
        return True

    def exception(self):
        return None

    def source_rank(self):
        return self.source


class StoreGroup(dist.ProcessGroup):
    """Ranks that leave their tensors in a store."""

    def __init__(self, store, rank, size):
        super().__init__(rank, size)
        self.store, self.n = store, 0

    def everybody(self, value):
        self.n += 1
        self.store.set(f"{self.n}/{self.rank()}", pickle.dumps(value))
        return [pickle.loads(self.store.get(f"{self.n}/{r}")) for r in range(self.size())]

    def allreduce(self, tensors, opts=None):
        for t in tensors:
            parts = flow.tensor(self.everybody(t.tolist()))
            t.copy_({"sum": parts.sum, "max": parts.amax}[str(opts.reduceOp)](0))
        return Work()

    def broadcast(self, tensors, opts=None):
        for t in tensors:
            t.copy_(flow.tensor(self.everybody(t.tolist())[opts.rootRank]))
        return Work()

    def allgather(self, outputs, inputs, opts=None):
        for places, t in zip(outputs, inputs):
            for place, part in zip(places, self.everybody(t.tolist())):
                place.copy_(flow.tensor(part, dtype=place.dtype).view(place.shape))
        return Work()

    def send(self, tensors, dst, tag=0):
        self.store.set(f"{self.rank()}>{dst}/{tag}", pickle.dumps(tensors[0].tolist()))
        return Work()

    def recv(self, tensors, src, tag=0):
        tensors[0].copy_(flow.tensor(pickle.loads(self.store.get(f"{src}>{self.rank()}/{tag}"))))
        return Work()

    def barrier(self, opts=None):
        self.everybody(None)
        return Work()


def make(store, rank, size, timeout):
    assert timeout.total_seconds() == 40
    return StoreGroup(store, rank, size)


dist.Backend.register_backend("Stored", make, devices="cpu")
'''

USE = (
    BACKEND
    + """
dist.init_process_group(dist.Backend.STORED, timeout=40)
here = dist.get_rank()
assert dist.is_initialized() and dist.get_world_size() == 2 and dist.get_backend() == "stored"
assert isinstance(dist.group.WORLD, dist.ProcessGroup)
x = flow.full((2,), here + 1.0)
dist.all_reduce(x)
assert x.tolist() == [3.0, 3.0], x
y = flow.full((2,), float(here))
work = dist.all_reduce(y, dist.ReduceOp.MAX, async_op=True)
work.wait()
assert y.tolist() == [1.0, 1.0]
dist.broadcast(y.zero_().add_(here), src=1)
assert y.tolist() == [1.0, 1.0]
got = [flow.zeros(2), flow.zeros(2)]
dist.all_gather(got, flow.full((2,), float(here)))
assert [t.tolist() for t in got] == [[0.0, 0.0], [1.0, 1.0]]
objects = [None, None]
dist.all_gather_object(objects, {"rank": here})
assert objects == [{"rank": 0}, {"rank": 1}]
if here == 0:
    dist.send(flow.ones(2), 1, tag=3)
else:
    assert dist.recv(y, 0, tag=3) == 0 and y.tolist() == [1.0, 1.0]
dist.barrier()
pair = dist.new_group([1, 0])
dist.all_reduce(x, group=pair)
assert x.tolist() == [6.0, 6.0] and dist.new_group([1 - here]) == -100
refusals = [(lambda: dist.reduce(x), "reduce: the backend 'stored'"), (lambda: flow.placement.all("cpu"), "'stored'")]
for refused, error in refusals:
    try:
        refused()
        raise SystemExit("was not refused")
    except NotImplementedError as found:
        assert error in str(found), found
dist.destroy_process_group()
assert not dist.is_initialized()
print("well")
"""
)


def test_a_backend_of_a_third_party_serves_the_functions() -> None:
    port = free_port()
    for out, err in run(USE, [torchrun(rank, 2, port) for rank in range(2)]):
        assert out == "well\n", err


def test_backends_are_registered_once() -> None:
    name = "test_backends_are_registered_once"
    dist.Backend.register_backend(name, lambda *a: None)
    assert dist.is_backend_available(name) and getattr(dist.Backend, name.upper()) == name
    assert dist.Backend.backend_capability[name] == ["cpu"]
    for taken in (name, "gloo", "tcp", "nccl"):
        with pytest.raises(RuntimeError, match="already exists"):
            dist.Backend.register_backend(taken, lambda *a: None)
    assert not dist.is_backend_available("nothing")
    with pytest.raises(NotImplementedError, match="pass it to init_process_group"):
        dist.new_group(backend=name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(dist.group.WORLD, dist.ProcessGroup) and not isinstance(3, dist.ProcessGroup)


def test_groups_have_pytorch_s_methods() -> None:
    def rank() -> Any:
        here, group = dist.get_rank(), dist.new_group([0, 1])
        x, got = oneflow.full((2,), here + 1.0), [oneflow.zeros(2), oneflow.zeros(2)]
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MAX
        group.allreduce([x], options).wait()
        assert x.tolist() == [2.0, 2.0]
        group.allgather([got], [oneflow.full((2,), float(here))]).wait()
        assert [t.tolist() for t in got] == [[0.0, 0.0], [1.0, 1.0]]
        root = dist.BroadcastOptions()
        root.rootRank = 1
        group.broadcast([x.fill_(here)], root).wait()
        assert x.tolist() == [1.0, 1.0]
        group.reduce_scatter([x], [[oneflow.ones(2), oneflow.full((2,), 3.0)]]).wait()
        assert x.tolist() == [2.0 + 4 * here] * 2
        group._allgather_base(oneflow.zeros(4), x).wait()
        group.alltoall_base(oneflow.zeros(2), x, [], []).wait()
        group.alltoall(got, [x, x]).wait()
        assert [t.tolist() for t in got] == [[2.0, 2.0], [6.0, 6.0]]
        group.gather([got] if here == 0 else [], [x]).wait()
        group.scatter([x], [got] if here == 0 else []).wait()
        work = group.send([x], 1, 5) if here == 0 else group.recv_anysource([x], 5)
        work.wait()
        assert here == 0 or work.source_rank() == 0
        group.monitored_barrier()
        alone = group.split_group([1])
        assert (alone is None) == (here == 0) and group.group_name == group.name() and group.getBackendName() == "fake"
        with pytest.raises(RuntimeError, match="requires a single-element tensor list"):
            group.send([x, x], 1 - here)
        group.shutdown()

    run_ranks(2, rank)
