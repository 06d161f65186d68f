"""Steps of an nn.Graph that two ranks run, each a process with a GPU of its own: ``python nccl_steps.py NAME``.

Collectives of a step are recorded with its other work once both ranks can. Each program ends with ``well``.
"""

import ctypes
import os
import signal
import sys

import oneflow as flow
import oneflow.distributed as dist
import oneflow.nn as nn
from nccl_programs import Net, failure, join, told_of_failure
from oneflow.profiler import profile

B, S = flow.sbp.broadcast, flow.sbp.split


def launches():
    """Launches of this process so far, which only the emulated driver counts; None elsewhere."""
    try:
        count = ctypes.CDLL("libcuda.so.1").emulator_launches
    except (AttributeError, OSError):
        return None
    count.restype = ctypes.c_long
    return count()


class Step(nn.Graph):
    def __init__(self, model, optimizer):
        super().__init__()
        self.model = model
        self.add_optimizer(optimizer)

    def build(self, x):
        loss = (self.model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        return loss


class Training:
    """A model whose ranks have the same weights and their parts of each batch; with ``split`` weights are cut too."""

    def __init__(self, where, split=False):
        flow.manual_seed(0)
        self.both, self.counts, self.calls, self.n = flow.placement(where, [0, 1]), [], [], 0
        self.model = Net().to_global(flow.placement(where, [0, 1]), B)
        if split:
            for layer in (self.model.first, self.model.second):
                layer.weight = nn.Parameter(layer.weight.detach().to_global(self.both, S(0)))
        self.step = Step(self.model, flow.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9))

    def run(self):
        x = ((flow.arange(64.0).view(8, 8) + 5 * self.n) % 7 / 7.0).to_global(flow.placement("cpu", [0, 1]), B)
        x = x.to_global(self.both, B).to_global(self.both, S(0))
        self.n += 1
        before, calls = launches(), sum(dist.wire_calls().values())
        loss = self.step(x)
        self.calls.append(sum(dist.wire_calls().values()) - calls)
        self.counts.append(before is not None and launches() - before)
        return loss.to_global(self.both, B).to_local()

    def weights(self):
        return [p.detach().to_global(self.both, B).to_local().cpu() for p in self.model.parameters()]


def compare(split, n=20):
    """Steps on the GPUs are those on the CPUs, with as many collectives each. Gives back the launches of each."""
    here, there = Training("cpu", split), Training("cuda", split)
    for k in range(n):
        a, b = here.run(), there.run()
        assert abs(a.item() - b.item()) < 1e-4 * abs(a.item()), (k, a.item(), b.item())
    assert all(flow.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(here.weights(), there.weights(), strict=True))
    assert there.calls[-1] == here.calls[-1] > 0, (there.calls, here.calls)
    return there.counts


def recorded():
    """A step with its collectives is one launch, which counts them."""
    join()
    for split in (False, True):
        counts = compare(split, 6)
        assert counts[-1] in (1, False), counts


class Deep(nn.Graph):
    """Layers with enough work for collectives to run beside it."""

    def __init__(self, where, zero):
        super().__init__()
        flow.manual_seed(0)
        self.both = flow.placement(where, [0, 1])
        layers = [layer for _ in range(4) for layer in (nn.Linear(192, 192), nn.GELU())]
        self.model = nn.Sequential(*layers).to_global(self.both, B)
        self.x = flow.randn(64, 192).to_global(self.both, B).to_global(self.both, S(0))
        self.add_optimizer(flow.optim.AdamW(self.model.parameters(), lr=1e-3))
        if zero:
            self.config.enable_zero(stage=zero, shard_min_size=16)

    def build(self, x):
        loss = self.model(x).square().mean()
        loss.backward()
        return loss

    def run(self):
        return self(self.x).to_global(self.both, B).to_local().item()


def beside():
    """Collectives run beside other work: in the task of all work, on a queue of their own."""
    join()
    for zero in (0, 2, 3):
        here, there = Deep("cpu", zero), Deep("cuda", zero)
        tasks = {}
        for graph in (here, there):
            with profile() as found:
                graph.run()
            names = {event.name.removeprefix("actor: ") for event in found.events() if event.name.startswith("actor: ")}
            tasks[graph] = names
        assert any(name.startswith("collective") for name in tasks[here]) and tasks[there] == {"compute"}, tasks
        for _ in range(3):
            a, b = here.run(), there.run()
            assert abs(a - b) < 1e-4 * abs(a), (zero, a, b)
        before = launches()
        last = there(there.x)
        assert before is None or launches() - before == 1, launches() - before
        a, b = here.run(), last.to_global(there.both, B).to_local().item()
        assert abs(a - b) < 1e-4 * abs(a), (zero, a, b)


def placements():
    """A graph over two placements is not recorded with its collectives."""
    join()
    line, mesh = flow.placement("cuda", [0, 1]), flow.placement("cuda", [[0, 1]])

    class Sums(nn.Graph):
        def build(self, x, y):
            return (x * 2).sum(0).to_global(line, B) + 1, (y * 3).sum(0).to_global(mesh, [B, B]) - 1

    graph = Sums()
    for k in range(5):
        x = (flow.arange(8.0).view(4, 2) + k).to_global(flow.placement("cpu", [0, 1]), B)
        here = x.to_global(line, B).to_global(line, S(0)), x.to_global(mesh, [B, B]).to_global(mesh, [B, S(0)])
        before = launches()
        found = graph(*here)
        assert before is None or launches() - before > 1
        x = x.to_local()
        assert [t.to_local().tolist() for t in found] == [
            (x * 2).sum(0).add(1).tolist(),
            (x * 3).sum(0).sub(1).tolist(),
        ]


def declined():
    """Rank 1 records nothing, so rank 0 records no collective either."""
    rank, _ = join()
    if rank == 1:
        os.environ["ONEFLOW_CUDA_GRAPHS"] = "0"
    counts = compare(False)
    assert counts[-1] is False or counts[-1] > 1, counts


def refused():
    """Rank 1 agrees and then cannot record: rank 0, which can, drops its recording."""
    rank, _ = join()
    if rank == 1:
        os.environ["EMULATOR_REFUSES_CAPTURES"] = "1"
    training, other = Training("cuda"), Training("cpu")
    for k in range(6):
        a, b = training.run().item(), other.run().item()
        assert abs(a - b) < 1e-4 * abs(b), (k, a, b)
    assert training.counts[-1] > 1, training.counts


def moved():
    """Weights that lie elsewhere, on both ranks or on one, are read where they are: their rank records anew."""
    rank, _ = join()
    training, other = Training("cuda"), Training("cpu")
    for _ in range(4):
        training.run(), other.run()
    assert training.counts[-1] in (1, False), training.counts
    for of in ((0, 1), (1,), (0,)):
        if rank in of:
            for p in training.model.parameters():
                p.data = p.detach().clone()
        for k in range(3):
            a, b = training.run().item(), other.run().item()
            assert abs(a - b) < 1e-4 * abs(b), (of, k, a, b)
            assert training.counts[-1] in (1, False), (of, k, training.counts)


def late():
    """Rank 1 does not run its next step: rank 0 says for what it has waited, and rank 1 hears of it."""
    rank, _ = join()
    training = Training("cuda")
    for _ in range(4):
        training.run().item()
    assert training.counts[-1] in (1, False), training.counts
    x = training_input(training)
    if rank == 0:
        dist.set_timeout(0.5)
        text = failure(lambda: (training.step(x), flow.cuda.synchronize()))
    else:
        text = told_of_failure()
    assert "on rank 0 of group" in text and "in a captured graph" in text and "timed out after" in text, text


def training_input(training):
    return (
        flow.ones(8, 8)
        .to_global(flow.placement("cpu", [0, 1]), B)
        .to_global(training.both, B)
        .to_global(training.both, S(0))
    )


def killed():
    """Rank 1 dies before its next step."""
    rank, _ = join()
    training = Training("cuda")
    for _ in range(4):
        training.run().item()
    x = training_input(training)
    flow.cuda.synchronize()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    text = failure(lambda: (training.step(x), flow.cuda.synchronize()))
    assert "in a captured graph" in text and "rank 1" in text, text


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    if dist.is_initialized():
        dist.destroy_process_group()
    print("well")
