"""Settings of `fully_shard` beside PyTorch: losses, gradients and parameters, their layouts and this rank's parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
from distributed.twice import both

PROGRAM = """
import warnings
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, CPUOffloadPolicy, fully_shard, share_comm_ctx
from torch.distributed.tensor import DTensor, Shard

warnings.simplefilter("ignore")
dist.init_process_group("gloo")
flat = init_device_mesh("cpu", (n,))
square = init_device_mesh("cpu", (2, n // 2), mesh_dim_names=("replicas", "slices"))

def numbers(*shape, shift=0.0):
    count = 1
    for size in shape:
        count *= size
    return torch.sin(torch.arange(count, dtype=torch.float64) * 1.7 + shift).reshape(shape)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 5), nn.Linear(5, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.c(self.b(self.a(x)).relu())

def x(i=0):
    return numbers(4, 3, shift=3 * rank + i)

def described(t):
    if not isinstance(t, DTensor):
        return t.tolist()
    return [repr(t.placements), list(t.shape), list(t.stride()), list(t.device_mesh.shape), t.to_local().tolist()]

def sharded(mesh=flat, each=lambda m: None, **settings):
    net = Net().double()
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(numbers(*p.shape, shift=i) / 2)
    for layer in (net.a, net.b):
        fully_shard(layer, mesh=mesh, **settings)
    fully_shard(net, mesh=mesh, **settings)
    for m in net.modules():
        if isinstance(m, FSDPModule):
            each(m)
    return net

def trained(net):
    found = []
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    for i in range(3):
        # Two forwards of one backward, and forwards without one.
        loss = net(x(i)).pow(2).sum() + net(x(i + 3)).sum()
        loss.backward()
        found.append(loss.detach())
        found += [p.grad for p in net.parameters()]
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            found.append(net(x(i + 9)))
        net(x(7))
    for m in net.modules():
        if isinstance(m, FSDPModule):
            m.reshard()
    return found + list(net.parameters())

def accumulated(net):
    for i in range(3):
        net.set_requires_gradient_sync(i == 2)
        net(x(i)).pow(2).sum().backward()
    return [p.grad for p in net.parameters()]

def summed(m):
    m.set_force_sum_reduction_for_comms(True)

def halved(m):
    m.set_all_reduce_hook(lambda reduced: reduced.div_(2))

def divided(m):
    m.set_gradient_divide_factor(3.0)
    m.set_force_sum_reduction_for_comms(True)

def shared(net):
    share_comm_ctx([net, sharded()])
    return trained(net)

def errors(make):
    try:
        return str(type(make()))
    except ValueError as error:
        return str(error)

settings = {
    "default": {},
    "freed": {"reshard_after_forward": True},
    "kept": {"reshard_after_forward": False},
    "a number": {"reshard_after_forward": 2},
    "one": {"reshard_after_forward": 1},
    "all": {"reshard_after_forward": n},
    "replicas": {"mesh": square},
    "replicas, a number": {"mesh": square, "reshard_after_forward": n // 2},
    "part of a mesh": {"mesh": square["slices"], "reshard_after_forward": n // 2},
    "sums": {"each": summed},
    "sums of replicas": {"mesh": square, "each": summed},
    "hook": {"each": halved},
    "hook of replicas": {"mesh": square, "each": halved},
    "factor": {"each": divided},
    "double sums": {"mp_policy": MixedPrecisionPolicy(reduce_dtype=torch.float64)},
    "host": {"offload_policy": CPUOffloadPolicy(pin_memory=False)},
    "columns": {"shard_placement_fn": lambda p: Shard(1) if p.ndim == 2 and p.shape[1] % n == 0 else None},
}
for name, own in settings.items():
    for steps in (trained, accumulated):
        say(f"{name}, {steps.__name__}", *[described(t) for t in steps(sharded(**own))])
say("shared", *[described(t) for t in shared(sharded())])
for given in (3, 5):
    say(f"error {given}", errors(lambda: sharded(reshard_after_forward=given)))
say("error", errors(lambda: sharded(mesh=square, reshard_after_forward=n)))
"""


def close(mine: Any, theirs: Any) -> bool:
    if isinstance(theirs, list) and not (theirs and isinstance(theirs[0], str)):
        return numpy.allclose(mine, theirs, rtol=1e-9, atol=1e-12)
    if isinstance(theirs, list):
        return mine[:4] == theirs[:4] and numpy.allclose(mine[4], theirs[4], rtol=1e-9, atol=1e-12)
    return bool(mine == theirs) or (isinstance(theirs, float) and abs(mine - theirs) < 1e-9)


@pytest.mark.parametrize("n", [2, 4])
def test_settings(n: int, tmp_path: Path) -> None:
    found = both(PROGRAM, tmp_path, n)
    for mine, theirs in zip(found["oneflow"], found["torch"], strict=True):
        assert len(mine) == len(theirs) == 17 * 2 + 4
        for own, expected in zip(mine, theirs, strict=True):
            assert own[0] == expected[0] and len(own) == len(expected)
            for i, (a, b) in enumerate(zip(own, expected, strict=True)):
                assert close(a, b), (own[0], i, a, b)


WHOLE = (
    PROGRAM[: PROGRAM.index("settings = {")]
    + """
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

net = Net().double()
with torch.no_grad():
    for i, p in enumerate(net.parameters()):
        p.copy_(numbers(*p.shape, shift=i) / 2)
net = FSDP(net, auto_wrap_policy=ModuleWrapPolicy({nn.Linear}), device_id=torch.device("cpu"), use_orig_params=True)

def whole(change=None, **settings):
    with FSDP.summon_full_params(net, **settings):
        for name, p in net.named_parameters():
            say(name, p.detach().tolist(), None if p.grad is None else p.grad.tolist())
            if change is not None:
                change(p)

whole(with_grads=True)
net(x()).pow(2).sum().backward()
whole(lambda p: p.grad.mul_(3), with_grads=True)
whole(lambda p: p.grad.zero_(), with_grads=True, writeback=False)
torch.optim.SGD(net.parameters(), lr=0.1).step()
net(x(1)).sum().backward()
whole(with_grads=True)
"""
)


def test_whole_gradients(tmp_path: Path) -> None:
    found = both(WHOLE, tmp_path, 2)
    for mine, theirs in zip(found["oneflow"], found["torch"], strict=True):
        assert len(mine) == len(theirs) == 4 * 6
        for a, b in zip(mine, theirs, strict=True):
            assert a[0] == b[0] and (a[2] is None) == (b[2] is None)
            assert numpy.allclose(a[1], b[1]) and (b[2] is None or numpy.allclose(a[2], b[2])), (a, b)
