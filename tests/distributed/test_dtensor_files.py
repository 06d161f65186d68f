"""DTensors in the files of save and load: each rank's own part, compared with PyTorch."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import oneflow
import pytest
from distributed.twice import both
from oneflow._files import mesh_tensors
from oneflow.distributed.device_mesh import init_device_mesh
from oneflow.distributed.tensor import Shard, distribute_tensor
from oneflow.testing import run_ranks

PROGRAM = """
import copy, itertools, pathlib, pickle
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard

dist.init_process_group("gloo")
pathlib.Path(meeting).mkdir(exist_ok=True)
path = f"{meeting}/{rank}.pt"
flat = init_device_mesh("cpu", (n,))
square = init_device_mesh("cpu", (2, n // 2), mesh_dim_names=("dp", "tp"))

def told(t):
    if not isinstance(t, DTensor):
        return [list(t.shape), t.tolist()]
    mesh = t.device_mesh
    return [repr(t.placements), list(t.shape), str(t.dtype)[-7:], t.requires_grad, isinstance(t, torch.nn.Parameter),
            t.to_local().tolist(), mesh.mesh.tolist(), mesh.mesh_dim_names, t.full_tensor().tolist()]

def through(make, **options):
    torch.save(make, path)
    return torch.load(path, **options)

x = torch.arange(21, dtype=torch.float64).view(7, 3)
kinds = [Shard(0), Shard(1), Replicate(), Partial()]
layouts = [(flat, (p,)) for p in kinds] + [(square, p) for p in itertools.product(kinds, kinds)]
layouts = [(m, p) for m, p in layouts if p != (Shard(1), Shard(1))]
for mesh, places in layouts:
    y = distribute_tensor(x, mesh, places)
    say(f"{places}", told(through(y)))
    say(f"{places} trained", told(through(y.clone().detach().requires_grad_(), weights_only=True)))
    say(f"{places} in a list", [told(t) for t in through([torch.nn.Parameter(y), x, y], weights_only=False)])
    say(f"{places} pickled", told(pickle.loads(pickle.dumps(y))), told(copy.deepcopy(y)))
y = distribute_tensor(torch.arange(16.).view(8, 2), square, [_StridedShard(0, split_factor=n // 2), Shard(0)])
say("the other way", told(through(y)), told(through(y, mmap=True)))

model = torch.nn.Linear(5, 3)
with torch.no_grad():
    for p in model.parameters():
        p.copy_(torch.arange(p.numel()).view(p.shape))
fully_shard(model)
state = model.state_dict()
found = through(state)
say("fully_shard", [[name, told(t)] for name, t in found.items()])
say("back", repr(model.load_state_dict(found)), [p.full_tensor().tolist() for p in model.parameters()])
"""


def test_parts_come_back_as_in_torch(tmp_path: Path) -> None:
    found = both(PROGRAM, tmp_path, 4)
    for theirs, ours in zip(found["torch"], found["oneflow"], strict=True):
        assert len(theirs) == len(ours) == 4 * 19 + 3
        for expected, value in zip(theirs, ours, strict=True):
            assert value == expected


def rows() -> Any:
    return distribute_tensor(oneflow.arange(6.0).view(3, 2), init_device_mesh("cpu", (2,)), [Shard(0)])


def saved(value: Any, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    oneflow.save(value, file, **options)
    file.seek(0)
    return file


def test_files_of_other_kinds(tmp_path: Path) -> None:
    def rank(path: str) -> None:
        x = rows()
        old = oneflow.load(saved({"x": x}, _use_new_zipfile_serialization=False))["x"]
        assert old.placements == x.placements and old.to_local().tolist() == x.to_local().tolist()
        # One file for all ranks holds the whole.
        oneflow.save({"x": x}, path, global_dst_rank=0)
        oneflow.distributed.barrier()
        assert oneflow.load(path)["x"].tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
        # So does that of a global tensor of no mesh.
        balanced = oneflow.arange(4.0).to_global(oneflow.placement("cpu", [0, 1]), oneflow.sbp.split(0))
        assert oneflow.load(saved(balanced)).tolist() == [0.0, 1.0, 2.0, 3.0] * 2

    run_ranks(2, rank, str(tmp_path / "one.pt"))


def test_a_job_without_the_ranks_says_so() -> None:
    (file, _) = run_ranks(2, lambda: saved(rows()))
    with pytest.raises(RuntimeError, match=r"DTensor of shape \[3, 2\] over ranks \[0, 1\], and this job has 1"):
        oneflow.load(file)


@pytest.mark.parametrize(
    "changed",
    [
        {"local": 3},
        {"local": oneflow.zeros(5, 2)},
        {"ranks": []},
        {"ranks": [-1, 0]},
        {"ranks": ["a", "b"]},
        {"ranks": [0, 0]},
        {"words": [("Shard", 7)]},
        {"words": [("Shard", "x")]},
        {"words": [("Shard",)]},
        {"words": [("Placement",)]},
        {"words": [("Partial", "most")]},
        {"words": 3},
        {"shape": None},
        {"shape": (3, 2, 1)},
        {"names": 3},
    ],
    ids=str,
)
def test_broken_descriptions_are_refused(changed: dict[str, Any]) -> None:
    def rank() -> None:
        names = ("local", "ranks", "names", "words", "shape", "requires_grad")
        given = dict(zip(names, mesh_tensors.described(rows()), strict=True))
        assert mesh_tensors.rebuilt(**given).placements == (Shard(0),)
        with pytest.raises(pickle.UnpicklingError, match="a DTensor in the file has a broken description"):
            mesh_tensors.rebuilt(**{**given, **changed})

    run_ranks(2, rank)
