"""Averages of parameters, hooks without communication, samples of interrupted jobs: beside PyTorch. States of FSDP1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import oneflow as torch
import oneflow.nn as nn
import pytest
from distributed.twice import both
from oneflow.distributed.fsdp import FullyShardedDataParallel as FSDP
from oneflow.distributed.fsdp import OptimStateKeyType
from oneflow.distributed.fsdp.wrap import ModuleWrapPolicy
from oneflow.testing import run_ranks

PROGRAM = """
import itertools
from collections import OrderedDict
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.distributed.algorithms.model_averaging import hierarchical_model_averager as hierarchy
from torch.distributed.algorithms.model_averaging import utils
from torch.distributed.elastic.utils.data import CyclingIterator, ElasticDistributedSampler

dist.init_process_group("gloo")

def model():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(torch.sin(torch.arange(p.numel(), dtype=torch.float64) * 1.7 + i).reshape(p.shape) / 2)
    return net

def x(i=0):
    return torch.cos(torch.arange(15, dtype=torch.float64) + 3 * rank + i).reshape(5, 3)

def told(values):
    return [v.tolist() for v in values]

for periods in ([(2, n)], [(1, 2), (3, n)] if n > 2 else [(3, n)], [(2, 2), (4, n)] if n > 2 else [(2, n), (5, n)]):
    for warmup in (0, 3):
        net = model()
        averager = hierarchy.HierarchicalModelAverager(OrderedDict(periods), warmup_steps=warmup)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for i in range(7):
            optimizer.zero_grad()
            net(x(i)).pow(2).sum().backward()
            optimizer.step()
            averager.average_parameters(net.parameters() if i % 2 else optimizer.param_groups)
            say("hierarchy", *told(net.parameters()))
for wrong in ({}, {2: n, 1: 2}, {1: n, 2: 1}, {1: 2 * n}):
    try:
        hierarchy.HierarchicalModelAverager(OrderedDict(wrong))
        say("accepted", str(wrong))
    except ValueError:
        say("refused", str(wrong))

net = model()
with torch.no_grad():
    for p in net.parameters():
        p.mul_(rank + 1)
utils.average_parameters(itertools.islice(net.parameters(), 2), None if n == 1 else dist.group.WORLD)
say("two", *told(net.parameters()))
next(net.parameters()).sum().backward()
say("with gradients", len(utils.get_params_to_average(net.parameters())))
utils.average_parameters_or_parameter_groups([{"params": list(net.parameters())}], dist.group.WORLD)
say("one", *told(net.parameters()))

net = DDP(model())
net.register_comm_hook(None, noop_hook)
net(x()).sum().backward()
say("no communication", *told([p.grad for p in net.parameters()]))

say("epochs", *CyclingIterator(4, lambda epoch: iter(range(epoch)), start_epoch=1))
for size, start in ((10, 0), (10, 3), (11, 5), (n + 2, 2)):
    sampler = ElasticDistributedSampler(range(size), num_replicas=n, rank=rank, start_index=start)
    every = [None] * n
    dist.all_gather_object(every, list(sampler))
    say("samples", size, start, len(sampler), sorted(set(sum(every, []))), len(sum(every, [])))
"""


def close(mine: Any, theirs: Any) -> bool:
    if isinstance(theirs, list):
        return len(mine) == len(theirs) and all(map(close, mine, theirs))
    return bool(mine == theirs) or (isinstance(theirs, float) and bool(numpy.isclose(mine, theirs, rtol=1e-9)))


@pytest.mark.parametrize("n", [2, 4])
def test_beside_pytorch(n: int, tmp_path: Path) -> None:
    found = both(PROGRAM, tmp_path, n)
    for mine, theirs in zip(found["oneflow"], found["torch"], strict=True):
        assert len(mine) == len(theirs) == 3 * 2 * 7 + 4 + 3 + 1 + 1 + 4
        for a, b in zip(mine, theirs, strict=True):
            assert close(a, b), (a, b)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()


def step(model: Any, optimizer: Any, x: torch.Tensor) -> None:
    optimizer.zero_grad()
    model(x).pow(2).sum().backward()
    optimizer.step()


def test_states_of_optimizers_leave_and_enter_slices() -> None:
    """By every pair of functions; what one process has is the reference."""
    x = torch.arange(12.0, dtype=torch.float64).view(4, 3) / 12
    plain = net()
    reference = torch.optim.Adam(plain.parameters(), lr=0.1)
    step(plain, reference, x)
    names = [name for name, _ in plain.named_parameters()]

    def rank() -> None:
        def made() -> Any:
            model = FSDP(net(), auto_wrap_policy=ModuleWrapPolicy({nn.Linear}), use_orig_params=True)
            return model, torch.optim.Adam(model.parameters(), lr=0.1)

        model, optimizer = made()
        step(model, optimizer, x)
        here = torch.distributed.get_rank()
        alone = FSDP.full_optim_state_dict(model, optimizer)
        assert bool(alone) == (here == 0)
        full = FSDP.full_optim_state_dict(model, optimizer, rank0_only=False)
        by_number = FSDP.rekey_optim_state_dict(full, OptimStateKeyType.PARAM_ID, net())
        assert list(full["state"]) == names == full["param_groups"][0]["params"]
        for i, state in reference.state_dict()["state"].items():
            for key, value in state.items():
                assert torch.allclose(by_number["state"][i][key], value), (names[i], key)
        again = FSDP.rekey_optim_state_dict(by_number, OptimStateKeyType.PARAM_NAME, net())
        assert list(again["state"]) == names and again["param_groups"] == full["param_groups"]
        with pytest.raises(ValueError, match="no parameter of the model is 'nobody'"):
            FSDP.rekey_optim_state_dict(
                {"state": {"nobody": {}}, "param_groups": []}, OptimStateKeyType.PARAM_ID, net()
            )
        whole = torch.optim.Adam(net().parameters(), lr=0.5)
        whole.load_state_dict(by_number)
        assert whole.param_groups[0]["lr"] == 0.1
        with pytest.raises(ValueError, match="give the optimizer"):
            FSDP.shard_full_optim_state_dict(full, model)
        for load in (
            lambda m, o: FSDP.shard_full_optim_state_dict(full, m, optim=o),
            lambda m, o: FSDP.scatter_full_optim_state_dict(alone or None, m, optim=o),
            lambda m, o: FSDP.flatten_sharded_optim_state_dict(FSDP.sharded_optim_state_dict(model, optimizer), m, o),
        ):
            other, own = made()
            own.load_state_dict(load(other, own))
            for mine, theirs in zip(own.state.values(), optimizer.state.values(), strict=True):
                for key, value in theirs.items():
                    found = mine[key]
                    assert found.is_global == value.is_global and (found == value).all()

    run_ranks(2, rank)
