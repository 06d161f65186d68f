"""What two ranks run, each a process with a GPU of its own: ``python nccl_programs.py NAME``. Each ends with ``well``.

Collectives on GPUs are compared with those of the CPU, over the same ranks.
"""

import datetime
import os
import signal
import sys
import time

if "WITHOUT_PACKAGES" in os.environ:
    # Libraries of pip's packages are not found: they lie beside NumPy.
    import numpy  # noqa: F401

    sys.path[:] = [path for path in sys.path if not os.path.exists(os.path.join(path, "numpy"))]

import oneflow as flow
import oneflow.distributed as dist
import oneflow.nn as nn
from oneflow.distributed import flight
from oneflow.distributed.fsdp import (
    CPUOffloadPolicy,
    DiskOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    fully_shard,
)

SUM, AVG, PRODUCT, MIN, MAX = (getattr(dist.ReduceOp, name) for name in ("SUM", "AVG", "PRODUCT", "MIN", "MAX"))
BITS = [dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR]


def join(**options):
    dist.init_process_group("cpu:gloo,cuda:nccl", **options)
    flow.cuda.set_device(dist.get_rank())
    return dist.get_rank(), flow.device("cuda", dist.get_rank())


def numbers(dtype, n, rank):
    """Small whole numbers: every order of additions gives the same."""
    return ((flow.arange(n) * 7 + rank * 3) % 5 + 1).to(dtype)


def alike(run, *tensors):
    """Run on the CPU and on the GPU; the tensors end alike. Lists may stand for tensors."""
    device = flow.device("cuda", dist.get_rank())
    move = lambda t, to: [x.to(to, copy=True) for x in t] if isinstance(t, list) else t.to(to, copy=True)  # noqa: E731
    here, there = [move(t, "cpu") for t in tensors], [move(t, device) for t in tensors]
    run(*here), run(*there)
    for a, b in zip(here, there, strict=True):
        for x, y in zip(a, b, strict=True) if isinstance(a, list) else [(a, b)]:
            assert y.device == device and (y.cpu() == x).all().item(), (run, x, y.cpu())


def collectives():
    rank, device = join()
    assert dist.get_backend() == "cpu:gloo,cuda:nccl" and dist.is_nccl_available()
    floats = [flow.float32, flow.float64, flow.float16, flow.bfloat16]
    integers = [flow.int8, flow.uint8, flow.int16, flow.int32, flow.int64]
    for dtype in floats + integers:
        for op in [SUM, AVG, PRODUCT, MIN, MAX] + (BITS if dtype in integers else []):
            alike(lambda x: dist.all_reduce(x, op), numbers(dtype, 9, rank))  # noqa: B023
    for op in [SUM, PRODUCT, MIN, MAX, *BITS]:
        alike(lambda x: dist.all_reduce(x, op), numbers(flow.int64, 9, rank) > 2)  # noqa: B023
    alike(
        lambda x: dist.all_reduce(x), flow.complex(numbers(flow.float32, 4, rank), numbers(flow.float32, 4, 1 - rank))
    )
    for dtype in (flow.float32, flow.int16):
        x = numbers(dtype, 6, rank)
        for root in range(2):
            alike(lambda x: dist.reduce(x, root, MAX), x)  # noqa: B023
            alike(lambda x: dist.broadcast(x, root), x)  # noqa: B023
        alike(lambda y, x: dist.reduce_scatter_tensor(y, x), flow.zeros(3, dtype=dtype), x)
        parts = [numbers(dtype, 4, rank), numbers(dtype, 1, rank)]
        alike(lambda y, x: dist.reduce_scatter(y, x), flow.zeros((4, 1)[rank], dtype=dtype), parts)
    x = numbers(flow.float32, 4, rank).view(2, 2)
    alike(lambda y, x: dist.all_gather_into_tensor(y, x), flow.zeros(4, 2), x)
    alike(lambda y, x: dist.all_gather(y, x), [flow.zeros(2, 2), flow.zeros(2, 2)], x)
    alike(lambda y, x: dist.all_gather(y, x), [flow.zeros(1), flow.zeros(3)], numbers(flow.float32, 1 + 2 * rank, rank))
    alike(lambda y, x: dist.all_to_all_single(y, x), flow.zeros(2, 2), x)
    sent = [[1, 3], [0, 2]]
    got = [sent[0][rank], sent[1][rank]]
    x = numbers(flow.float32, 2 * sum(sent[rank]), rank).view(-1, 2)
    alike(lambda y, x: dist.all_to_all_single(y, x, got, sent[rank]), flow.zeros(sum(got), 2), x)
    lists = [flow.zeros(n) for n in got], [numbers(flow.float32, n, rank) for n in sent[rank]]
    alike(lambda y, x: dist.all_to_all(y, x), *lists)
    x, root = numbers(flow.int64, 3, rank), 1
    alike(lambda y, x: dist.gather(x, y if rank == root else None, root), [flow.zeros_like(x)] * 2, x)
    alike(lambda y, x: dist.scatter(y, x if rank == root else None, root), flow.zeros_like(x), [x + 1, x + 2])
    alike(lambda x: dist.send(x, 1) if rank == 0 else dist.recv(x, 0), x)

    def exchange(y, x):
        ops = [dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, y, 1 - rank)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()

    alike(exchange, flow.zeros_like(x), x)

    def together(x, y, z, w):
        with dist._coalescing_manager():
            dist.all_reduce(x)
            dist.all_reduce(y, MAX)
            dist.all_gather_into_tensor(z, w)

    alike(together, numbers(flow.float32, 3, rank), x, flow.zeros(6, dtype=x.dtype), x + 1)
    alike(lambda a, b: dist.all_reduce_coalesced([a, b]), numbers(flow.float32, 3, rank), x)
    alike(lambda x: (dist.all_reduce(x), dist.barrier()), x)
    dist.barrier(device_ids=[rank])
    got = [None, None]
    dist.all_gather_object(got, {"rank": rank, "x": numbers(flow.float32, 2, rank).to(device)})
    assert [entry["rank"] for entry in got] == [0, 1]

    # Groups of some ranks, in another order, and of one.
    pair, alone = dist.new_group([1, 0], sort_ranks=False), [dist.new_group([r]) for r in range(2)][rank]
    alike(lambda x: dist.all_reduce(x, group=pair), x)
    alike(lambda x: dist.broadcast(x, 1, group=pair), x)
    alike(lambda y, x: dist.all_gather_into_tensor(y, x, group=pair), flow.zeros(6, dtype=x.dtype), x)
    alike(lambda x: dist.all_reduce(x, group=alone), x)

    # What cannot be, before anybody is asked.
    there = x.to(device)
    for call, error, text in [
        (lambda: dist.all_reduce(there.to(flow.float32).view(-1)[::2]), ValueError, "contiguous"),
        (lambda: dist.all_gather_into_tensor(flow.zeros(6, dtype=x.dtype), there), RuntimeError, "on one device"),
        (lambda: dist.recv(there), NotImplementedError, "needs a source"),
        (lambda: dist.all_reduce(flow.complex(there * 1.0, there * 1.0), PRODUCT), NotImplementedError, "product"),
    ]:
        try:
            call()
        except error as e:
            assert text in str(e), e
        else:
            raise AssertionError(text)
    calls = dist.wire_calls()
    assert calls["all_reduce"] > 50 and calls["broadcast"] > 4, calls


def streams():
    """Works in the order of streams: the host waits for nothing."""
    rank, device = join(device_id=flow.device("cuda", int(os.environ["RANK"])))
    side, n = flow.cuda.Stream(), 1 << 10
    for k in range(12):
        x = flow.full((n,), float(k + rank), device=device)
        work = dist.all_reduce(x, async_op=True)
        # Nothing else keeps what was reduced.
        y = dist.all_reduce(flow.full((n,), 1.0, device=device) + k, async_op=True).result()[0]
        work.wait()
        assert work._is_on_device() and (x.cpu() == 2 * k + 1).all(), k
        dist.barrier()
        assert work.is_completed() and work.is_success() and (y.cpu() == 2 * k + 2).all(), k
        with flow.cuda.stream(side):
            # Produced, reduced and read on this stream.
            z = flow.full((n,), float(k), device=device) * (rank + 1)
            dist.all_reduce(z)
            z = z + 1
        side.synchronize()
        assert (z.cpu() == 3 * k + 1).all(), k
        flow.cuda.synchronize()
    future = dist.all_reduce(flow.ones(3, device=device), async_op=True).get_future()
    assert future.then(lambda f: f.value()[0] + 1).wait().tolist() == [3.0, 3.0, 3.0]
    # Memory that a collective uses is not handed out, and is later.
    before = flow.cuda.memory_allocated()
    for _ in range(20):
        dist.all_reduce(flow.ones(n, device=device))
    flow.cuda.synchronize()
    assert flow.cuda.memory_allocated() == before


def captures():
    """Collectives in captured graphs: each launch exchanges what is there then."""
    rank, device = join()
    x, weight = flow.full((6,), 1.0 + rank, device=device), flow.full((3,), 2.0, device=device)
    got, sent = flow.zeros(3, device=device), flow.zeros(2, device=device)

    def step():
        y = x * 2
        work = dist.all_reduce(y, async_op=True)
        z = weight * x[:3]
        work.wait()
        dist.reduce_scatter_tensor(got, y)
        dist.broadcast(z, 1)
        if rank == 0:
            dist.send(x[:2], 1)
        else:
            dist.recv(sent, 0)
        return y + 1, z

    side = flow.cuda.Stream()
    side.wait_stream(flow.cuda.current_stream())
    with flow.cuda.stream(side):
        step()
    flow.cuda.current_stream().wait_stream(side)
    flow.cuda.synchronize()
    graph = flow.cuda.CUDAGraph()
    with flow.cuda.graph(graph):
        y, z = step()
    assert dist.wire_calls()["reduce_scatter"] == 1, "a capture runs nothing"
    for k in range(6):
        x.fill_(k + 1.0 + rank)
        graph.replay()
        # Each launch counts.
        assert dist.wire_calls()["reduce_scatter"] == 2 + k, (k, dist.wire_calls())
        # Between launches collectives go on as ever.
        total = flow.full((2,), float(k), device=device)
        dist.all_reduce(total)
        both = 2 * (2 * k + 3.0)
        assert y.tolist() == [both + 1] * 6 and got.tolist() == [2 * both] * 3, (k, y.tolist(), got.tolist())
        assert z.tolist() == [2 * (k + 2.0)] * 3 and total.tolist() == [2.0 * k] * 2, (k, z.tolist())
        assert rank == 0 or sent.tolist() == [k + 1.0] * 2, k
    flow.cuda.synchronize()
    states = {"started"}
    while "started" in states:
        # The group's thread looks now and then.
        time.sleep(0.01)
        states = {entry["state"] for entry in flight.record()["operations"] if "nccl" in entry["group"]}
    assert states == {"completed"}, states
    dist.barrier()
    alone = dist.new_group([0, 1])
    dist.all_reduce(total, group=alone)
    graph = captured(lambda: dist.all_reduce(total, group=alone))
    dist.destroy_process_group(alone)
    text = failure(graph.replay)
    assert "the launch of a captured graph" in text and "was closed" in text, text


def captured(run):
    """A graph of what was run before."""
    flow.cuda.synchronize()
    graph = flow.cuda.CUDAGraph()
    with flow.cuda.graph(graph):
        run()
    return graph


def by_hand():
    """A group made from a store, and a work with a timeout of its own."""
    rank, n = int(os.environ["RANK"]), 2
    flow.cuda.set_device(rank)
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), n, rank == 0)
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = datetime.timedelta(seconds=90)
    group = dist.ProcessGroupNCCL(dist.PrefixStore("nccl", store), rank, n, options)
    assert isinstance(group, dist.ProcessGroupNCCL) and group.timeout() == 90.0
    x = flow.full((3,), rank + 1.0, device=flow.device("cuda", rank))
    group.allreduce(x).wait()
    assert x.tolist() == [3.0] * 3
    waits = dist.AllreduceOptions()
    waits.timeout = datetime.timedelta(seconds=0.5)
    if rank == 0:
        work = group.allreduce([x], waits)
        assert group.timeout() == 90.0
        text = failure(lambda: (work.wait(), x.cpu()))
        assert "all_reduce" in text and "timed out" in text, text
    else:
        text = failure(lambda: group.barrier().wait(60.0))
        assert "timed out" in text, text


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 1)

    def forward(self, x):
        return self.last(self.second(self.first(x).relu()).relu())


def trained(device, rank, hook=None):
    """Parameters after some steps of a model that is wrapped in DDP, and the losses."""
    flow.manual_seed(0)
    ids = None if device == "cpu" else [rank]
    model = nn.parallel.DistributedDataParallel(Net().to(device), ids, bucket_cap_mb=0.0005)
    if hook is not None:
        model.register_comm_hook(None, hook)
    optimizer, losses = flow.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), []
    for step in range(4):
        x = (flow.arange(32).view(4, 8) + 5 * rank + step) % 7 / 7.0
        # Inputs go to the GPU by themselves.
        loss = (model(x) - x.sum(1, keepdim=True).to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return [p.detach().cpu() for p in model.parameters()], [loss.item() for loss in losses]


def ddp():
    rank, device = join()
    dist.reset_wire_counters()
    expected, losses = trained("cpu", rank)
    n_calls = dist.wire_calls()["all_reduce"]
    for hook in (None, dist.algorithms.ddp_comm_hooks.default_hooks.allreduce_hook):
        found, found_losses = trained(device, rank, hook)
        assert all(flow.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(expected, found, strict=True))
        assert all(abs(a - b) < 1e-4 * abs(a) for a, b in zip(losses, found_losses, strict=True))
    assert n_calls >= 8 and dist.wire_calls()["all_reduce"] == 3 * n_calls, "several buckets a step"


def sharded(where, rank, wrap=None, steps=4, **options):
    """Parameters after some steps of a sharded model with dropped gradients, and the losses."""
    flow.manual_seed(0)
    model = Net()
    model.last = nn.Linear(16, 4)
    if wrap is not None:
        model = wrap(model)
    else:
        mesh = dist.device_mesh.init_device_mesh(where, (2,))
        for layer in (model.first, model.second):
            fully_shard(layer, mesh=mesh, **options)
        fully_shard(model, mesh=mesh, **options)
    device = flow.device(where, rank) if where == "cuda" else flow.device("cpu")
    on_host = isinstance(options.get("offload_policy"), CPUOffloadPolicy) or where == "cpu"
    assert all(p.to_local().device == (flow.device("cpu") if on_host else device) for p in model.parameters())
    if on_host and where == "cuda":
        assert all(p.to_local().is_pinned() for p in model.parameters() if p.to_local().numel())
    optimizer, losses = flow.optim.AdamW(model.parameters(), lr=0.05), []
    for step in range(steps):
        x = ((flow.arange(32).view(4, 8) + 5 * rank + step) % 7 / 7.0).to(device)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss)
    if on_host:
        assert all(p.grad.to_local().device.type == "cpu" for p in model.parameters())
    return [p.full_tensor().detach().cpu() for p in model.parameters()], [loss.item() for loss in losses]


def fsdp():
    """Slices, gathers and reductions on the GPUs, as on the CPU."""
    rank, device = join()
    policy = MixedPrecisionPolicy(param_dtype=flow.bfloat16, reduce_dtype=flow.float32)
    offload = {"offload_policy": CPUOffloadPolicy()}
    kept = {"reshard_after_forward": False}
    for options in ({}, kept, {"mp_policy": policy}, offload, {**offload, **kept}, {**offload, "mp_policy": policy}):
        near = {"rtol": 3e-2, "atol": 3e-2} if options.get("mp_policy") else {"rtol": 1e-4, "atol": 1e-5}
        dist.reset_wire_counters()
        expected, losses = sharded("cpu", rank, **options)
        calls = dist.wire_calls()
        dist.reset_wire_counters()
        found, found_losses = sharded("cuda", rank, **options)
        assert calls["all_gather"] > 8 and dist.wire_calls()["all_gather"] == calls["all_gather"]
        assert all(flow.allclose(a, b, **near) for a, b in zip(expected, found, strict=True)), options
        assert flow.allclose(flow.tensor(losses), flow.tensor(found_losses), **near), (losses, found_losses)
    expected, losses = sharded("cpu", rank, FullyShardedDataParallel)
    found, found_losses = sharded("cuda", rank, lambda m: FullyShardedDataParallel(m, device_id=rank))
    assert all(flow.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(expected, found, strict=True))
    # A module that is on the GPU says where to shard; the whole is freed after its use.
    big = fully_shard(nn.Linear(512, 512, bias=False, device=device))
    assert big.weight.to_local().device == device and big.weight.to_local().numel() == 512 * 256
    big.unshard()
    assert big.weight.device == device and big.weight.shape == (512, 512)
    flow.cuda.synchronize()
    whole = flow.cuda.memory_allocated()
    big.reshard()
    flow.cuda.synchronize()
    freed = whole - flow.cuda.memory_allocated()
    # An empty storage keeps the smallest block.
    assert freed >= 512 * 512 * 4 - 512, freed
    # A slice of the host is no memory of the GPU, before and after it was gathered.
    flow.cuda.synchronize()
    before = flow.cuda.memory_allocated()
    held = fully_shard(nn.Linear(512, 512, bias=False, device=device), **offload)
    for _ in range(2):
        held(flow.ones(1, 512, device=device)).sum().backward()
    flow.cuda.synchronize()
    assert flow.cuda.memory_allocated() - before < 512 * 512
    assert held.weight.grad.to_local().device.type == "cpu" and held.weight.to_local().numel() == 512 * 256
    text = failure(
        lambda: fully_shard(nn.Linear(2, 2, device=device), offload_policy=DiskOffloadPolicy()), NotImplementedError
    )
    assert "memory of a GPU has no pages of a file" in text, text
    text = failure(lambda: FullyShardedDataParallel(nn.Linear(2, 2), device_id=1 - rank), ValueError)
    assert f"cuda:{1 - rank} is not the current device" in text, text


def global_tensors():
    """Layouts change on the GPUs, eagerly and in a graph."""
    rank, _ = join()
    both = flow.placement("cuda", [0, 1])
    B, S, P = flow.sbp.broadcast, flow.sbp.split, flow.sbp.partial_sum
    x = flow.arange(30.0).view(5, 6)
    for source in (B, S(0), S(1), P):
        for target in (B, S(0), S(1), P):
            y = x.to_global(flow.placement("cpu", [0, 1]), B).to_global(both, B).to_global(both, source)
            dist.reset_wire_counters()
            z = y.to_global(both, target)
            assert z.to_local().device == flow.device("cuda", rank)
            assert (z.to_global(both, B).to_local().cpu() == x).all(), (source, target)
    short = flow.ones(4, dtype=flow.int16).to_global(flow.placement("cpu", [0, 1]), B).to_global(both, P)
    assert short.to_global(both, B).to_local().tolist() == [1] * 4

    class Layer(nn.Graph):
        def __init__(self, linear):
            super().__init__()
            self.linear = linear

        def build(self, x):
            return self.linear(x).relu().sum(1)

    flow.manual_seed(1)
    linear = nn.Linear(6, 4)
    expected = linear(x).relu().sum(1)
    linear = linear.to_global(both, B)
    linear.weight, linear.bias = (nn.Parameter(p.detach().to_global(both, S(0))) for p in (linear.weight, linear.bias))
    given = x.to_global(flow.placement("cpu", [0, 1]), B).to_global(both, B)
    eager, graph = linear(given).relu().sum(1), Layer(linear)
    for found in (eager, graph(given), graph(given)):
        value = found.to_global(both, B).to_local().cpu()
        assert flow.allclose(value, expected, rtol=1e-5), (value, expected)
    assert dist.wire_calls()


def failure(call, kind=RuntimeError):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("no error")


def out_of_step():
    rank, device = join()
    x = flow.ones(8, device=device)
    dist.barrier()
    work = dist.all_reduce(x, async_op=True) if rank == 0 else dist.broadcast(x, 0, async_op=True)
    text = failure(lambda: work.wait(30.0))
    kind = ("all_reduce", "broadcast")[rank]
    assert f"#1 {kind}(float32, 8 elements" in text and f"on rank {rank} of" in text, text
    later = failure(lambda: dist.all_reduce(x))
    assert "#2 all_reduce" in later and "AllReduce" in later and "Broadcast" in later, later


def late():
    """Rank 1 does not come: rank 0 says for what it has waited, and rank 1 hears of it."""
    rank, device = join()
    x = flow.ones(8, device=device)
    dist.all_reduce(x)
    flow.cuda.synchronize()
    if rank == 0:
        dist.set_timeout(0.5)
        dist.all_reduce(x)
        text = failure(x.cpu)
    else:
        text = told_of_failure()
    assert "#1 all_reduce(float32, 8 elements, sum) on rank 0 of" in text and "timed out after" in text, text


def late_launch():
    """Rank 1 does not launch its graph: rank 0 says which operations it has waited for, and rank 1 hears of it."""
    rank, device = join()
    x, y = flow.ones(8, device=device), flow.ones(2, 3, device=device)
    dist.all_reduce(x)
    graph = captured(lambda: (dist.all_reduce(x), dist.broadcast(y, 1)))
    for _ in range(2):
        graph.replay()
    flow.cuda.synchronize()
    assert x.tolist() == [8.0] * 8
    if rank == 0:
        dist.set_timeout(0.5)
        graph.replay()
        text = failure(x.cpu)
        later = failure(graph.replay)
        assert "the launch of a captured graph" in later and "timed out after" in later, later
    else:
        text = told_of_failure()
    assert "#5 all_reduce(float32, 8 elements, sum) on rank 0 of" in text and "timed out after" in text, text
    assert "the first of 2 operations in a captured graph (1 all_reduce, 1 broadcast)" in text, text


def told_of_failure():
    """What rank 1 hears from rank 0, which has failed."""
    while True:
        try:
            dist.isend(flow.zeros(0), 0, tag=5).wait()
        except RuntimeError as error:
            # The socket of messages may close before the word of why has been read.
            if "the connection to rank 0 is closed" not in str(error):
                return str(error)
        time.sleep(0.05)


def killed_before_launch():
    """Rank 1 dies before it launches its graph."""
    rank, device = join()
    x = flow.ones(8, device=device)
    dist.all_reduce(x)
    graph = captured(lambda: dist.all_reduce(x))
    graph.replay()
    flow.cuda.synchronize()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    graph.replay()
    text = failure(flow.cuda.synchronize)
    assert "#2 all_reduce" in text and "in a captured graph" in text and "rank 1" in text, text


def killed():
    """Rank 1 dies: rank 0 does not wait for the timeout."""
    rank, device = join()
    x = flow.ones(8, device=device)
    dist.all_reduce(x)
    flow.cuda.synchronize()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    text = failure(lambda: dist.all_reduce(x, async_op=True).wait(60.0))
    assert "all_reduce" in text and "rank 1" in text, text


def planted():
    """A communicator meets an error of its own."""
    _, device = join()
    x = flow.ones(8, device=device)
    text = failure(lambda: [dist.all_reduce(x, async_op=True).wait(60.0) for _ in range(8)])
    assert "all_reduce" in text and "planted failure" in text, text


def one_gpu():
    """Both ranks on one GPU."""
    dist.init_process_group("nccl")
    text = failure(lambda: dist.all_reduce(flow.ones(1, device="cuda:0")))
    assert "Duplicate GPU detected" in text and "set_device(local_rank)" in text, text


def refused():
    """A library that is missing or too old is said at once."""
    text = failure(lambda: dist.init_process_group("nccl"))
    assert os.environ["EXPECTED"] in text and "oneflow[cu12]" in text, text
    assert not dist.is_nccl_available() and not dist.is_initialized()
    # Without it, tensors of the CPU are served all the same.
    dist.init_process_group("gloo")
    text = failure(lambda: dist.all_reduce(flow.ones(1, device="cuda:0")))
    assert os.environ["EXPECTED"] in text, text
    dist.all_reduce(flow.ones(1))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    if dist.is_initialized():
        dist.destroy_process_group()
    print("well")
