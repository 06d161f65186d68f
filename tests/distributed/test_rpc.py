"""Calls of functions on other workers: the same programs, run by PyTorch and by this package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import oneflow.distributed.autograd as dist_autograd
import pytest
from distributed import twice
from oneflow.distributed import rpc
from oneflow.distributed.autograd import _contexts

N = 3
HEAD = """
import os, threading, time
os.environ["TP_SOCKET_IFNAME"] = "lo"
import torch.distributed.rpc as rpc
from torch.distributed.rpc import RRef, rpc_async, rpc_sync, remote

def error_of(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__

other = f"worker{(rank + 1) % n}"
"""
# After all functions: a call may come at once.
START = "\nrpc.init_rpc(f'worker{rank}', rank=rank, world_size=n)\n"


def both(functions: str, body: str, folder: Path, n: int = N) -> list[list[Any]]:
    """What each worker says, which is the same under PyTorch."""
    found = twice.both(HEAD + functions + START + body + "\nrpc.shutdown()", folder, n)
    assert found["oneflow"] == found["torch"]
    return found["oneflow"]


def test_calls(tmp_path: Path) -> None:
    functions = """
class Point:
    def __init__(self, x, y=0):
        self.x, self.y = x, y
    def __call__(self, z):
        return self.x + self.y + z
    @staticmethod
    def of(x):
        return Point(x, x)

def where(*args, **kwargs):
    return rpc.get_worker_info().name, args, sorted(kwargs.items())

def relay(hops, value):
    # A call in a call, and back to the first worker.
    me = rpc.get_worker_info().id
    return value + 1 if hops == 0 else rpc_sync((me + 1) % n, relay, args=(hops - 1, value * 2))

def fail(kind):
    raise kind("text of the error")

def sleep(seconds):
    time.sleep(seconds)
    return seconds

def made(shape):
    return torch.full(shape, 2.5)

class Own(Exception):
    pass

class Awkward(Exception):
    def __init__(self, a, b):
        super().__init__(a)
"""
    body = """
x = torch.arange(6.0).reshape(2, 3) + rank
say(rpc_sync(other, torch.add, args=(x, 3)))
say(rpc_sync(other, torch.add, args=(x.t(), x.t()), kwargs={"alpha": 2}))
say(rpc_sync(other, min, args=(3, 2)), rpc_sync(rank, max, args=(3, 2)))
say(rpc_sync(rpc.get_worker_info(other), len, ([1],)))
say(*rpc_sync(other, where, args=(1, "a", None), kwargs={"b": [2.5, {"c": (3,)}]}))
say(*rpc_sync(f"worker{rank}", where))
say(rpc_sync(other, relay, args=(7, 1)))
futures = [rpc_async(other, torch.mul, args=(x, i)) for i in range(20)]
say(*torch.futures.wait_all(futures))
say(rpc_async(other, max, args=(4, 5)).then(lambda f: f.wait() + 1).wait())
point = rpc_sync(other, Point, args=(2,), kwargs={"y": 5})
say(point.x, point.y, rpc_sync(other, point, args=(1,)), rpc_sync(other, Point.of, args=(3,)).y)
for dtype in (torch.int8, torch.int64, torch.bool, torch.float16, torch.float64):
    got = rpc_sync(other, torch.clone, args=(torch.ones(2, dtype=dtype),))
    say(str(got.dtype), got)
say(rpc_sync(other, made, args=((0, 3),)).shape, rpc_sync(other, made, args=((),)))
layer = torch.nn.Linear(3, 2)
with torch.no_grad():
    layer.weight.fill_(0.5), layer.bias.fill_(rank)
say(rpc_sync(other, layer, args=(x,)).detach())
back = rpc_sync(other, torch.nn.Linear.eval, args=(layer,))
say(type(back).__name__, back.training, back.weight, back.weight.requires_grad)

for kind in (ValueError, RuntimeError, Awkward):
    say(error_of(lambda: rpc_sync(other, fail, args=(kind,))))
# PyTorch makes a RuntimeError of most others.
for kind in (KeyError, ZeroDivisionError, Own):
    say(error_of(lambda: rpc_sync(other, fail, args=(kind,))) in ("RuntimeError", kind.__name__))
try:
    rpc_sync(other, fail, args=(ValueError,))
except ValueError as error:
    first, second, *_ = str(error).splitlines()
    say(first.endswith(f"On {rpc.get_worker_info(other)}:"), second, "in fail" in str(error))
say(error_of(lambda: rpc_async(other, fail, args=(ValueError,)).wait()))
say(error_of(lambda: rpc_sync("nobody", max, args=(1, 2))), error_of(lambda: rpc_sync(other, 3)))
say(error_of(lambda: rpc_sync(2.5, max, args=(1, 2))))

started = time.monotonic()
try:
    rpc_sync(other, sleep, args=(2,), timeout=0.3)
except RuntimeError as error:
    say(str(error).split(":")[-1], time.monotonic() - started < 1.5)
say(rpc_sync(other, sleep, args=(0.1,), timeout=0), rpc.get_rpc_timeout())
rpc._set_rpc_timeout(0.3)
say(error_of(lambda: rpc_sync(other, sleep, args=(2,))), round(rpc.get_rpc_timeout(), 3))
rpc._set_rpc_timeout(60)
time.sleep(2)
"""
    both(functions, body, tmp_path)


def test_references(tmp_path: Path) -> None:
    functions = """
class Counter:
    def __init__(self, value=0):
        self.value = value
    def add(self, n, times=1):
        self.value += n * times
        return self.value
    def fail(self):
        raise KeyError("inside")
    @rpc.functions.async_execution
    def later(self, n):
        future = torch.futures.Future()
        threading.Timer(0.05, lambda: future.set_result(self.value + n)).start()
        return future
    @staticmethod
    @rpc.functions.async_execution
    def chain(to, x):
        return rpc_async(to, torch.add, args=(x, 1)).then(lambda f: f.wait() * 10)

def use(reference):
    # A reference on a worker that is not its owner, or is.
    return reference.owner().name, reference.is_owner(), reference.rpc_sync().add(1), reference.to_here().value

def fetch(reference):
    return reference.to_here()

def keep(reference):
    kept.append(reference)
    return len(kept)

def pass_on(reference, to):
    return rpc_sync(to, use, args=(reference,))

def make(value):
    return RRef(value)

def wrong():
    raise ValueError("made wrong")

kept = []"""
    body = """
third = f"worker{(rank + 2) % n}"
counter = remote(other, Counter, args=(10,))
say(counter.owner().name, counter.owner_name(), counter.owner().id, counter.is_owner())
say(counter.rpc_sync().add(1, times=2))
say(counter.rpc_async().add(3).wait(), counter.remote().add(4).to_here(), counter.to_here().value)
say(error_of(counter.local_value))
try:
    counter.rpc_sync().fail()
except Exception as error:
    say("KeyError('inside')" in str(error))
say(error_of(lambda: counter.rpc_sync().no()))
say(counter.rpc_sync().later(1), counter.remote().later(2).to_here(), counter.rpc_async().later(3).wait())
say(*rpc_sync(other, use, args=(counter,)), *rpc_sync(third, use, args=(counter,)))
say(*rpc_sync(third, pass_on, args=(counter, other)))
own = RRef(Counter(5))
say(own.is_owner(), own.local_value().value, own.to_here() is own.local_value(), own.rpc_sync().add(1))
say(*rpc_sync(other, use, args=(own,)), own.local_value().value, own.confirmed_by_owner())
here = remote(f"worker{rank}", Counter, args=(7,))
say(here.is_owner(), here.local_value().value, here.rpc_sync().add(2), here.to_here().value)
made = rpc_sync(other, make, args=([1, 2, 3],))
say(made.is_owner(), made.owner_name(), made.to_here(), rpc_sync(third, fetch, args=(made,)))
# A reference lives on at the third worker when this one has let it go.
gone = remote(other, Counter, args=(100,))
rpc_sync(third, keep, args=(gone,))
del gone
time.sleep(0.3)
while not kept:
    time.sleep(0.05)
say(kept[0].rpc_sync().add(1), kept[0].is_owner())
say(error_of(remote(other, wrong).to_here), error_of(remote(f"worker{rank}", wrong).to_here))
say(rpc_sync(other, Counter.chain, args=(third, torch.ones(2))))
say(rpc_async(other, Counter.chain, (third, torch.ones(1))).wait())
say(remote(other, Counter.chain, args=(f"worker{rank}", torch.zeros(2))).to_here())
many = [remote(i % n, torch.add, args=(torch.ones(2), i)) for i in range(3 * n)]
say(sum(reference.to_here() for reference in many))
say(type(RRef(torch.ones(1)).local_value()).__name__, rpc_sync(other, len, args=([own, counter],)))
with rpc.api._wait_all():
    rpc_async(other, time.sleep, args=(0.1,))
import pickle
say(error_of(lambda: pickle.dumps(counter)))
"""
    both(functions, body, tmp_path)


def test_a_parameter_server_of_batches(tmp_path: Path) -> None:
    """The shape of pytorch/examples' distributed/rpc/batch: trainers send gradients, one update answers all."""
    functions = """
class Server:
    def __init__(self, n_trainers):
        self.model = torch.nn.Linear(3, 1, dtype=torch.float64)
        torch.nn.init.ones_(self.model.weight), torch.nn.init.zeros_(self.model.bias)
        self.lock, self.future = threading.Lock(), torch.futures.Future()
        self.n_trainers, self.count = n_trainers, 0
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        for p in self.model.parameters():
            p.grad = torch.zeros_like(p)

    def get_model(self):
        return self.model

    @staticmethod
    @rpc.functions.async_execution
    def update_and_fetch_model(server, grads):
        self = server.local_value()
        for p, g in zip(self.model.parameters(), grads):
            p.grad += g
        with self.lock:
            self.count += 1
            future = self.future
            if self.count >= self.n_trainers:
                for p in self.model.parameters():
                    p.grad /= self.n_trainers
                self.count = 0
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=False)
                future.set_result(self.model)
                self.future = torch.futures.Future()
        return future

class Trainer:
    def __init__(self, server):
        self.server = server

    def train(self):
        me, losses = rpc.get_worker_info().id, []
        model = self.server.rpc_sync().get_model()
        for step in range(6):
            x = torch.sin(torch.arange(12.0, dtype=torch.float64) + me).reshape(4, 3)
            loss = ((model(x) - me) ** 2).mean()
            loss.backward()
            losses.append(loss.item())
            model = rpc_sync(self.server.owner(), Server.update_and_fetch_model,
                             args=(self.server, [p.grad for p in model.cpu().parameters()]))
        return losses

def run_trainer(server):
    return Trainer(server).train()
"""
    body = """
if rank == 0:
    server = RRef(Server(n - 1))
    futures = [rpc_async(f"worker{i}", run_trainer, args=(server,)) for i in range(1, n)]
    found = torch.futures.wait_all(futures)
    say(*[[round(loss, 12) for loss in losses] for losses in found])
    assert found[0][-1] != found[0][0]
"""
    both(functions, body, tmp_path)


def test_agents_that_report_to_a_learner(tmp_path: Path) -> None:
    """The shape of pytorch/examples' distributed/rpc/rl: observers ask the agent while it waits for them."""
    functions = """
def call_method(method, reference, *args, **kwargs):
    return method(reference.local_value(), *args, **kwargs)

def remote_method(method, reference, *args, **kwargs):
    return rpc_sync(reference.owner(), call_method, args=[method, reference, *args], kwargs=kwargs)

class Observer:
    def __init__(self):
        self.id = rpc.get_worker_info().id

    def run_episode(self, agent, n_steps):
        state, seen = torch.full((4,), float(self.id)), []
        for step in range(n_steps):
            action = remote_method(Agent.select_action, agent, self.id, state)
            state = state + action
            remote_method(Agent.report_reward, agent, self.id, state.sum().item())
        return state

class Agent:
    def __init__(self):
        self.reference, self.lock = RRef(self), threading.Lock()
        self.observers = [remote(rpc.get_worker_info(f"worker{i}"), Observer) for i in range(1, n)]
        self.rewards = {i: [] for i in range(1, n)}

    def select_action(self, observer, state):
        return torch.tanh(state.sum()) * observer

    def report_reward(self, observer, reward):
        with self.lock:
            self.rewards[observer].append(round(reward, 4))

    def run(self, n_steps):
        futures = [rpc_async(o.owner(), call_method, args=(Observer.run_episode, o, self.reference, n_steps))
                   for o in self.observers]
        return [future.wait() for future in futures]
"""
    body = """
if rank == 0:
    agent = Agent()
    for episode in range(3):
        say(*[state.round(decimals=4) for state in agent.run(5)])
    say(*agent.rewards.values())
"""
    both(functions, body, tmp_path)


def test_objects_of_all_workers(tmp_path: Path) -> None:
    body = """
for turn in range(3):
    say(sorted(rpc.api._all_gather((turn, rank)).items()))
say(rpc.api._require_initialized(lambda: 1)())
"""
    found = both("", body, tmp_path)
    assert found[0][:3] == [[[[f"worker{r}", [turn, r]] for r in range(N)]] for turn in range(3)]


def test_what_one_worker_is_refused() -> None:
    rpc.init_rpc("alone", rank=0, world_size=1)
    try:
        assert rpc.api._all_gather(3, {"alone"}) == {"alone": 3}
        with pytest.raises(NotImplementedError, match="all workers \\(alone\\), not of a, b"):
            rpc.api._all_gather(3, {"b", "a"})
        with dist_autograd.context() as context_id:
            with pytest.raises(RuntimeError, match="cannot be nested"), dist_autograd.context():
                pass
            assert list(_contexts._contexts) == [context_id]
    finally:
        rpc.shutdown()
    with pytest.raises(RuntimeError, match="has not been initialized"):
        rpc.api._require_initialized(lambda: 1)()
