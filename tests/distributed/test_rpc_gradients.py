"""Gradients through calls of other workers, and optimizers over them: PyTorch's numbers."""

from __future__ import annotations

from pathlib import Path

from distributed.processes import free_port, run, torchrun
from distributed.test_rpc import both

HEAD = """
import torch.distributed.autograd as dist_autograd
from torch.distributed.optim import DistributedOptimizer

def numbers(*shape, shift=0.0, grad=True):
    count = 1
    for size in shape:
        count *= size
    x = torch.sin(torch.arange(count, dtype=torch.float64) * 1.7 + shift).reshape(shape)
    return x.requires_grad_(grad)

def rounded(x):
    return [round(v, 10) for v in x.reshape(-1).tolist()]

def sums(gradients):
    # By size: the order of a context's tensors is nobody's promise.
    return sorted(([list(t.shape), rounded(g)] for t, g in gradients.items()), key=str)
"""


def test_gradients_through_calls(tmp_path: Path) -> None:
    functions = """
def square(x):
    return x * x

def both_ways(x, y, hops):
    # Calls in a call: the graph passes from worker to worker.
    z = torch.tanh(x) * y
    if hops:
        z = rpc_sync((rpc.get_worker_info().id + 1) % n, both_ways, args=(z, y, hops - 1))
    return z + x

class Layer:
    def __init__(self, k):
        self.w = numbers(3, 3, shift=k)
    def forward(self, x):
        return torch.relu(x @ self.w)
    def gradients(self, context_id):
        return rounded(dist_autograd.get_gradients(context_id)[self.w])

def gradients_here(context_id):
    return sums(dist_autograd.get_gradients(context_id))

def inplace(x):
    return x.mul_(2.0)
"""
    body = """
x, y = numbers(2, 3, shift=rank), numbers(2, 3, shift=rank + 0.5)
with dist_autograd.context() as c:
    # Local parts, one tensor in several calls and as several arguments, numbers beside tensors.
    a = rpc_sync(other, torch.add, args=(x, y))
    b = rpc_sync(other, torch.mul, args=(a, a))
    d = rpc_async(other, square, args=(x,)).wait() + (x * 2).exp()
    e = rpc_sync(other, torch.add, args=(d, 3))
    dist_autograd.backward(c, [(a + b).sum(), (d * e).sum()])
    found = dist_autograd.get_gradients(c)
    say(len(found), rounded(found[x]), rounded(found[y]), x.grad is None)
with dist_autograd.context() as c:
    z = rpc_sync(other, both_ways, args=(x, y, 4))
    dist_autograd.backward(c, [z.sum()], retain_graph=True)
    once = rounded(dist_autograd.get_gradients(c)[x])
    dist_autograd.backward(c, [z.sum()])
    say(once, rounded(dist_autograd.get_gradients(c)[x]), rounded(dist_autograd.get_gradients(c)[y]))
layers = [remote(i % n, Layer, args=(i,)) for i in range(5)]
with dist_autograd.context() as c:
    h = x
    for layer in layers:
        h = layer.rpc_sync().forward(h) + h
    loss = (h * h).sum()
    dist_autograd.backward(c, [loss])
    say(rounded(loss), rounded(dist_autograd.get_gradients(c)[x]))
    say(*[layer.rpc_sync().gradients(c) for layer in layers])
with dist_autograd.context() as c:
    # Values of references, made and fetched inside of the context.
    r = remote(other, square, args=(x,))
    s = remote(other, torch.mul, args=(r.to_here(), y))
    dist_autograd.backward(c, [s.to_here().sum()])
    say(rounded(dist_autograd.get_gradients(c)[x]), rounded(dist_autograd.get_gradients(c)[y]))
with dist_autograd.context() as c:
    # What needs no gradient comes back without one; an in-place change on the other side.
    p = rpc_sync(other, torch.add, args=(x.detach(), 1))
    r = rpc_sync(other, inplace, args=(x,))
    say(p.requires_grad, r.requires_grad)
    dist_autograd.backward(c, [(r * p).sum()])
    found = dist_autograd.get_gradients(c)
    say(rounded(found[x]), y in found)
with dist_autograd.context() as c:
    h = x
    parts = []
    for step in range(6):
        h = rpc_sync(step % n, both_ways, args=(h, y, 1))
        parts.append(h.sum())
    dist_autograd.backward(c, [sum(parts)])
    say(rounded(dist_autograd.get_gradients(c)[x]), rounded(dist_autograd.get_gradients(c)[y]))
with dist_autograd.context() as c:
    for wrong in ([], [x], [x.detach().sum()]):
        say(error_of(lambda: dist_autograd.backward(c, wrong)))
    say(error_of(lambda: dist_autograd.backward(c + 12345, [x.sum()])))
    say(error_of(lambda: dist_autograd.get_gradients(c + 12345)))
say(error_of(lambda: dist_autograd.get_gradients(c)))
root = RRef((x * y).sum())
root.backward()
say(rounded(x.grad), rounded(y.grad))
"""
    both(HEAD + functions, body, tmp_path)


def test_two_callers_in_one_worker(tmp_path: Path) -> None:
    """Contexts of several callers do not see each other's gradients."""
    functions = """
w = numbers(2, 2)
def product(x):
    return x @ w
def found(c):
    return rounded(dist_autograd.get_gradients(c)[w])"""
    body = """
for step in range(5):
    with dist_autograd.context() as c:
        x = numbers(2, 2, shift=rank + step)
        y = rpc_sync("worker0", product, args=(x,))
        dist_autograd.backward(c, [(y * y).sum()])
        say(rounded(dist_autograd.get_gradients(c)[x]), rpc_sync("worker0", found, args=(c,)))
"""
    both(HEAD + functions, body, tmp_path)


def test_a_model_split_over_workers_trains(tmp_path: Path) -> None:
    """The shape of pytorch/examples' distributed/rpc/rnn: parameters by reference, one optimizer over all workers."""
    functions = """
class Embedding(torch.nn.Module):
    def __init__(self, k):
        super().__init__()
        self.weight = torch.nn.Parameter(numbers(7, 4, shift=k, grad=False))
    def forward(self, x):
        return torch.nn.functional.embedding(x, self.weight)

class Decoder(torch.nn.Module):
    def __init__(self, k):
        super().__init__()
        self.layer = torch.nn.Linear(4, 7, dtype=torch.float64)
        with torch.no_grad():
            self.layer.weight.copy_(numbers(7, 4, shift=k)), self.layer.bias.zero_()
    def forward(self, x):
        return self.layer(x)

def call_method(method, reference, *args):
    return method(reference.local_value(), *args)

def remote_method(method, reference, *args):
    return rpc_sync(reference.owner(), call_method, args=[method, reference, *args])

def parameter_references(module):
    return [RRef(parameter) for parameter in module.local_value().parameters()]

class Model(torch.nn.Module):
    def __init__(self, table, decoder):
        super().__init__()
        self.table, self.decoder = remote(table, Embedding, args=(1,)), remote(decoder, Decoder, args=(2,))
        self.mix = torch.nn.Linear(4, 4, dtype=torch.float64)
        with torch.no_grad():
            self.mix.weight.copy_(numbers(4, 4, shift=3)), self.mix.bias.zero_()
    def forward(self, x):
        h = torch.tanh(self.mix(remote_method(Embedding.forward, self.table, x)))
        return remote_method(Decoder.forward, self.decoder, h)
    def references(self):
        found = rpc_sync(self.table.owner(), parameter_references, args=(self.table,))
        found += [RRef(p) for p in self.mix.parameters()]
        return found + rpc_sync(self.decoder.owner(), parameter_references, args=(self.decoder,))
"""
    body = """
if rank == 0:
    for kind, options in ((torch.optim.SGD, {"lr": 0.3}), (torch.optim.Adam, {"lr": 0.05})):
        model = Model("worker1", "worker2")
        optimizer = DistributedOptimizer(kind, model.references(), **options)
        x, target = torch.tensor([1, 2, 6, 2]), torch.tensor([0, 3, 5, 3])
        for step in range(8):
            with dist_autograd.context() as c:
                loss = torch.nn.functional.cross_entropy(model(x), target)
                dist_autograd.backward(c, [loss])
                optimizer.step(c)
            say(round(loss.item(), 9))
"""
    both(HEAD + functions, body, tmp_path)


def test_a_pipeline_of_micro_batches(tmp_path: Path) -> None:
    """The shape of pytorch/examples' distributed/rpc/pipeline: stages pass references on, futures collect results."""
    functions = """
class Stage(torch.nn.Module):
    def __init__(self, k):
        super().__init__()
        self.lock = threading.Lock()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 4, dtype=torch.float64), torch.nn.Tanh())
        with torch.no_grad():
            for i, p in enumerate(self.net.parameters()):
                p.copy_(numbers(*p.shape, shift=k + i))
    def forward(self, x):
        x = x.to_here()
        with self.lock:
            return self.net(x)
    def parameter_rrefs(self):
        return [RRef(p) for p in self.parameters()]

class Pipeline(torch.nn.Module):
    def __init__(self, split, workers):
        super().__init__()
        self.split = split
        self.first, self.second = (remote(w, Stage, args=(k,), timeout=0) for k, w in enumerate(workers))
    def forward(self, xs):
        futures = []
        for x in iter(xs.split(self.split, dim=0)):
            middle = self.first.remote().forward(RRef(x))
            futures.append(self.second.rpc_async().forward(middle))
        return torch.cat(torch.futures.wait_all(futures))
    def parameter_rrefs(self):
        return self.first.remote().parameter_rrefs().to_here() + self.second.remote().parameter_rrefs().to_here()
"""
    body = """
if rank == 0:
    for split in (1, 3):
        model = Pipeline(split, ["worker1", "worker2"])
        optimizer = DistributedOptimizer(torch.optim.SGD, model.parameter_rrefs(), lr=0.2)
        x = numbers(6, 4, grad=False)
        for step in range(4):
            with dist_autograd.context() as c:
                loss = (model(x) ** 2).mean()
                dist_autograd.backward(c, [loss])
                optimizer.step(c)
            say(round(loss.item(), 9))
"""
    both(HEAD + functions, body, tmp_path)


def test_modules_on_other_workers(tmp_path: Path) -> None:
    functions = """
from torch import nn
from torch.distributed.nn.api.remote_module import RemoteModule

class Layer(nn.Module):
    def __init__(self, k, bias=True):
        super().__init__()
        self.inner, self.drop = nn.Linear(4, 4, bias=bias).double(), nn.Dropout(0.5)
        with torch.no_grad():
            self.inner.weight.copy_(numbers(4, 4, grad=False) * k)
            if bias:
                self.inner.bias.fill_(0.5)
    def forward(self, x, *, power=1):
        return self.inner(x) ** power
    def is_training(self):
        return self.training

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = RemoteModule("worker1/cpu", Layer, args=(0.5,), kwargs={"bias": False})
        self.second = RemoteModule("rank:2", Layer, (0.25,))
    def forward(self, x):
        return self.second(self.first(x), power=2)

def used(module, x):
    return rpc.get_worker_info().name, module.forward(x)

def error_of(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__
"""
    body = """
if rank == 0:
    model, x = Model(), numbers(3, 4, grad=False)
    parameters = model.first.remote_parameters() + model.second.remote_parameters()
    say(len(parameters), [tuple(p.to_here().shape) for p in parameters], len(model.first.remote_parameters(False)))
    say([p.owner_name() for p in parameters], model.first.get_module_rref().owner_name())
    optimizer = DistributedOptimizer(torch.optim.SGD, parameters, lr=0.1)
    for step in range(3):
        with dist_autograd.context() as c:
            loss = (model(x) ** 2).mean()
            dist_autograd.backward(c, [loss])
            optimizer.step(c)
        say(round(loss.item(), 9))
    say(rounded(model.second.forward_async(x).wait()))
    # Another worker gets a reference to the same module.
    where, y = rpc_sync("worker2", used, args=(model.first, x))
    again = RemoteModule.init_from_module_rref("worker1/cpu", model.first.module_rref)
    say(where, rounded(y), rounded(again.forward(x)))
    for name in ("parameters", "state_dict", "modules", "cpu", "zero_grad", "extra_repr"):
        say(error_of(getattr(model.first, name)))
    for place, kind in (("worker1", dict), ("worker1/sun", Layer), ("nobody/cpu", Layer)):
        arguments = (0.5,) if kind is Layer else ()
        say(isinstance(error_of(lambda: RemoteModule(place, kind, arguments).forward(x)), str))
"""
    both(HEAD + functions, body, tmp_path)


def test_modules_on_other_workers_follow_the_mode(tmp_path: Path) -> None:
    """In PyTorch ``eval`` of what holds one leaves it training."""
    body = """
from oneflow.distributed import rpc
from oneflow.distributed.nn import RemoteModule
rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=n)
if rank == 0:
    model = flow.nn.Sequential(RemoteModule("worker1/cpu", flow.nn.Dropout, (0.5,)))
    print(model.eval()(flow.ones(100)).eq(1).all().item(), model.train()(flow.ones(100)).eq(1).all().item())
rpc.shutdown()
"""
    port = free_port()
    (said, error), _ = run(body, [torchrun(rank, 2, port) for rank in range(2)])
    assert said.split() == ["True", "False"], error


def test_results_that_nobody_uses() -> None:
    """PyTorch would wait for their gradients."""
    body = """
from oneflow.distributed import autograd as dist_autograd, rpc
rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
def square(x):
    return x * x
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=n)
x = flow.arange(3.0, requires_grad=True)
with dist_autograd.context() as c:
    used, unused = (rpc.rpc_sync((rank + 1) % n, square, args=(x,)) for _ in range(2))
    again = rpc.rpc_sync((rank + 1) % n, square, args=(unused,))
    dist_autograd.backward(c, [used.sum()])
    print(dist_autograd.get_gradients(c)[x].tolist())
    # What the workers remembered is gone.
    try:
        dist_autograd.backward(c, [used.sum()])
    except RuntimeError as error:
        print("a second time" in str(error))
rpc.shutdown()
"""
    port = free_port()
    for said, error in run(body, [torchrun(rank, 2, port) for rank in range(2)]):
        assert said.splitlines() == ["[0.0, 2.0, 4.0]", "True"], error
