"""Programs in the manner of PyTorch's distributed examples, unchanged, on both packages: one loss curve.

They make the model from arithmetic, since the two packages draw different random numbers, and compute in float64.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from distributed.twice import both

COMMON = """
import os
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

def numbers(*shape, shift=0.0):
    count = 1
    for size in shape:
        count *= size
    return torch.sin(torch.arange(count, dtype=torch.float64) * 1.7 + shift).reshape(shape)

@torch.no_grad()
def fill(module, write=lambda p, value: p.copy_(value)):
    for i, p in enumerate(module.parameters()):
        write(p, numbers(*p.shape, shift=i) / 2)
    return module
"""

DDP = """
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed import init_process_group, destroy_process_group

class Pairs(Dataset):
    def __len__(self):
        return 22

    def __getitem__(self, i):
        return numbers(4, shift=i), numbers(1, shift=-i)

class Trainer:
    def __init__(self, model, data, optimizer, save_every, path):
        self.place = int(os.environ["LOCAL_RANK"])
        self.data, self.optimizer, self.save_every, self.path = data, optimizer, save_every, path
        self.model, self.epochs_run = model, 0
        if os.path.exists(path):
            snapshot = torch.load(path)
            model.load_state_dict(snapshot["MODEL_STATE"])
            self.epochs_run = snapshot["EPOCHS_RUN"]
        self.model = DDP(model)

    def run_epoch(self, epoch):
        self.data.sampler.set_epoch(epoch)
        total = 0.0
        for source, targets in self.data:
            self.optimizer.zero_grad()
            loss = F.mse_loss(self.model(source), targets)
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total

    def train(self, epochs):
        for epoch in range(self.epochs_run, epochs):
            say(epoch, self.run_epoch(epoch))
            if self.place == 0 and epoch % self.save_every == 0:
                torch.save({"MODEL_STATE": self.model.module.state_dict(), "EPOCHS_RUN": epoch + 1}, self.path)
        dist.barrier()

init_process_group(backend="gloo")
for epochs in (3, 5):
    model = fill(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).double())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    pairs = Pairs()
    sampler = DistributedSampler(pairs, shuffle=False)
    data = DataLoader(pairs, batch_size=4, pin_memory=False, shuffle=False, sampler=sampler)
    Trainer(model, data, optimizer, 2, meeting + ".pt").train(epochs)
destroy_process_group()
"""

TENSOR_PARALLEL = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed._tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj, self.relu, self.out_proj = nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 5)

    def forward(self, x):
        return self.out_proj(self.relu(self.in_proj(x)))

mesh = init_device_mesh(device_type="cpu", mesh_shape=(int(os.environ["WORLD_SIZE"]),))
for plan, split in (
    ({"in_proj": ColwiseParallel(), "out_proj": RowwiseParallel()}, False),
    ({"in_proj": ColwiseParallel(input_layouts=Shard(0)), "out_proj": RowwiseParallel(output_layouts=Shard(0))}, True),
):
    model = parallelize_module(module=fill(Toy().double()), device_mesh=mesh, parallelize_plan=plan)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, foreach=True)
    for i in range(4):
        whole = numbers(8, 10, shift=i)
        output = model(whole.chunk(n)[rank].contiguous() if split else whole)
        optimizer.zero_grad()
        output.sum().backward()
        optimizer.step()
        say(output.detach())
dist.destroy_process_group()
"""

FSDP = """
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions, _init_optim_state, get_model_state_dict, get_optimizer_state_dict, set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(6), nn.Linear(6, 10, bias=False), nn.Linear(10, 6)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(9, 6)
        self.layers = nn.ModuleList([Block(), Block()])
        self.output = nn.Linear(6, 9, bias=False)

    def forward(self, x):
        x = self.tokens(x)
        for layer in self.layers:
            x = layer(x)
        return self.output(x)

device = torch.device("cpu")
dist.init_process_group(backend="gloo")

def sharded():
    with torch.device("meta"):
        model = Model().double()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    assert isinstance(model, FSDPModule)
    assert all(p.placements == (Shard(0),) for p in model.parameters())
    return model

def train(model, optimizer, first, last):
    for i in range(first, last):
        x = (torch.arange(12).reshape(3, 4) * (i + 1) + rank) % 9
        loss = F.cross_entropy(model(x).flatten(0, 1), x.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        optimizer.zero_grad()
        say(loss.detach())

model = sharded()
model.to_empty(device=device)
fill(model, lambda p, value: p.copy_(distribute_tensor(value, p.device_mesh, p.placements)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
train(model, optimizer, 0, 3)

# By the functions of checkpoints ...
full = StateDictOptions(full_state_dict=True, cpu_offload=True)
of_model = get_model_state_dict(model=model, options=full)
of_optimizer = get_optimizer_state_dict(model=model, optimizers=optimizer, options=full)
# ... and by hand.
by_hand = {name: p.full_tensor() for name, p in model.state_dict().items()}
states = optimizer.state_dict()
moments = {
    i: {key: t.full_tensor() if isinstance(t, DTensor) else t.clone() for key, t in of.items()}
    for i, of in states["state"].items()
}
train(model, optimizer, 3, 5)

back = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
again = sharded()
again.to_empty(device=device)
set_model_state_dict(model=again, model_state_dict=of_model, options=back)
its = torch.optim.Adam(again.parameters(), lr=1e-2)
set_optimizer_state_dict(model=again, optimizers=its, optim_state_dict=of_optimizer, options=back)
train(again, its, 3, 5)

last = sharded()
meta = last.state_dict()
put = {
    name: nn.Parameter(distribute_tensor(whole, meta[name].device_mesh, meta[name].placements))
    for name, whole in by_hand.items()
}
last.load_state_dict(put, strict=False, assign=True)
its = torch.optim.Adam(last.parameters(), lr=1e-2)
_init_optim_state(its)
of = its.state_dict()
for i, values in of["state"].items():
    for key, t in values.items():
        whole = moments[i][key]
        values[key] = distribute_tensor(whole, t.device_mesh, t.placements) if isinstance(t, DTensor) else whole
its.load_state_dict(of)
train(last, its, 3, 5)
dist.destroy_process_group()
"""

AMP = """
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
place = torch.device(f"cpu:{rank}")
model = DDP(fill(nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 7))).to(place))
optimizer = torch.optim.AdamW(
    [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
     {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}], lr=0.01, betas=(0.9, 0.95))
scaler = torch.amp.GradScaler(place.type)
for i in range(4):
    x = torch.arange(12, device=place).reshape(3, 4) * (i + rank + 1) % 7
    with torch.set_grad_enabled(True), torch.amp.autocast(device_type=place.type, dtype=torch.bfloat16, enabled=True):
        loss = F.cross_entropy(model(x).flatten(0, 1).float(), x.flatten().to(place))
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    say(loss.detach())
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("program", "tolerance"),
    # Half precision rounds sums of another order to other numbers.
    [(DDP, 1e-9), (TENSOR_PARALLEL, 1e-9), (FSDP, 1e-9), (AMP, 2e-2)],
    ids=["ddp", "tensor parallel", "fsdp", "amp"],
)
def test_a_program_of_pytorch(program: str, tolerance: float, tmp_path: Path) -> None:
    found = both(COMMON + program, tmp_path, 2)
    assert len(found["oneflow"][0]) == len(found["torch"][0]) > 3
    for ours, theirs in zip(found["oneflow"], found["torch"], strict=True):
        assert _flat(ours) == pytest.approx(_flat(theirs), rel=tolerance, abs=tolerance)


def _flat(said: object) -> list[float]:
    return [x for item in said for x in _flat(item)] if isinstance(said, list) else [said]
