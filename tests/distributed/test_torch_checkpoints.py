"""Checkpoints of several ranks in PyTorch's format: theirs are read here, ours there; damaged ones are refused."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import oneflow
import oneflow.distributed as dist
import oneflow.distributed.checkpoint as dcp
import pytest
import torch
import torch.distributed.checkpoint as torch_dcp
from oneflow.distributed.checkpoint import CheckpointException
from oneflow.testing import run_ranks

TORCH_RANK = """
import os, sys, time, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", store=dist.FileStore(folder + ".meeting", 2), rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
rows = torch.arange(35.0).reshape(7, 5)
state = {
    "model": {
        "rows": distribute_tensor(rows, mesh, [Shard(0)]),
        "columns": distribute_tensor(rows.bfloat16(), mesh, [Shard(1)]),
        "same": distribute_tensor(rows[:2].to(torch.complex128), mesh, [Replicate()]),
    },
    "optim": {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 0.1, "params": [0]}]},
    "step": 3,
}
dcp.save(state, checkpoint_id=folder)
# Both leave without taking the group down, in which PyTorch aborts now and then.
open(f"{folder}.done{rank}", "w").close()
while not all(os.path.exists(f"{folder}.done{other}") for other in range(2)):
    time.sleep(0.05)
os._exit(0)
"""


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("torch") / "checkpoint"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen([sys.executable, "-c", TORCH_RANK, str(rank), str(folder)], env=environment)
        for rank in range(2)
    ]
    try:
        assert [rank.wait(timeout=200) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    return folder


def empty(shard: Any) -> dict[str, Any]:
    return {
        "model": {
            "rows": shard(oneflow.zeros(7, 5)),
            "columns": shard(oneflow.zeros(7, 5, dtype=oneflow.bfloat16)),
            "same": oneflow.zeros(2, 5, dtype=oneflow.complex128),
        },
        "optim": {"state": {0: {"step": oneflow.tensor(0.0)}}, "param_groups": [{"lr": 0.0, "params": [9]}]},
        "step": 0,
    }


def check(state: dict[str, Any]) -> None:
    rows = oneflow.arange(35.0).reshape(7, 5)
    whole = lambda t: t.full_tensor() if hasattr(t, "full_tensor") and t.is_global else t  # noqa: E731
    assert oneflow.equal(whole(state["model"]["rows"]), rows)
    assert oneflow.equal(whole(state["model"]["columns"]), rows.bfloat16())
    assert oneflow.equal(state["model"]["same"], rows[:2].to(oneflow.complex128))
    assert state["optim"]["state"][0]["step"].item() == 3 and state["step"] == 3
    assert state["optim"]["param_groups"] == [{"lr": 0.1, "params": [0]}]


def test_theirs_is_read_by_one_rank_and_by_three(theirs: Path) -> None:
    found = dcp.FileSystemReader(theirs).read_metadata()
    assert found.tensors["model.rows"].shape == (7, 5) and len(found.tensors["model.columns"].chunks) == 2
    state = empty(lambda t: t)
    dcp.load(state, checkpoint_id=theirs)
    check(state)

    def rank() -> None:
        mesh = dist.init_device_mesh("cpu", (3,))
        state = empty(lambda t: dist.tensor.distribute_tensor(t, mesh, [dist.tensor.Shard(1)]))
        dcp.load(state, checkpoint_id=theirs)
        check(state)

    run_ranks(3, rank)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_ours_is_read_there(tmp_path: Path) -> None:
    """Twice into one folder, over a checkpoint of the other format."""
    folder = tmp_path / "checkpoint"

    def rank() -> None:
        mesh = dist.init_device_mesh("cpu", (3,))
        rows = oneflow.arange(35.0).reshape(7, 5)
        part = lambda t, dim: dist.tensor.distribute_tensor(t, mesh, [dist.tensor.Shard(dim)])  # noqa: E731
        state = empty(lambda t: t)
        state["model"] = {"rows": part(rows, 0), "columns": part(rows.bfloat16(), 1), "same": rows[:2] + 0j}
        state["model"]["same"] = state["model"]["same"].to(oneflow.complex128)
        state["optim"] = {"state": {0: {"step": oneflow.tensor(3.0)}}, "param_groups": [{"lr": 0.1, "params": [0]}]}
        state["step"] = 3
        dcp.save(state, checkpoint_id=folder)
        for _ in range(2):
            writer = dcp.FileSystemWriter(folder, serialization_format=dcp.filesystem.SerializationFormat.TORCH_SAVE)
            dcp.save(state, storage_writer=writer)
        again = empty(lambda t: part(t, 0))
        dcp.load(again, checkpoint_id=folder)
        check(again)

    run_ranks(3, rank)
    assert {path.suffix for path in folder.iterdir()} == {".distcp", ""}
    assert len(list(folder.iterdir())) <= 4
    rows = torch.arange(35.0).reshape(7, 5)
    state: dict[str, Any] = {
        "model": {"rows": torch.zeros(7, 5), "columns": torch.zeros(7, 5, dtype=torch.bfloat16)},
        "optim": {"state": {0: {"step": torch.tensor(0.0)}}, "param_groups": [{"lr": 0.0, "params": [9]}]},
        "step": 0,
    }
    torch_dcp.load(state, checkpoint_id=folder, no_dist=True)
    assert torch.equal(state["model"]["rows"], rows) and torch.equal(state["model"]["columns"], rows.bfloat16())
    assert state["optim"]["state"][0]["step"].item() == 3 and state["step"] == 3
    assert state["optim"]["param_groups"] == [{"lr": 0.1, "params": [0]}]
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    dcp_to_torch_save(folder, tmp_path / "whole.pt")
    whole = torch.load(tmp_path / "whole.pt", weights_only=False)
    assert torch.equal(whole["model"]["rows"], rows)


class _Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("/tmp/oneflow-was-here",)


def test_what_is_damaged_is_refused(theirs: Path, tmp_path: Path) -> None:
    good = (theirs / ".metadata").read_bytes()
    files = {path.name: path.read_bytes() for path in theirs.iterdir() if path.suffix == ".distcp"}
    bad = {
        "cut": good[: len(good) // 2],
        "empty": b"",
        "another object": pickle.dumps({"a": 1}),
        "code": pickle.dumps(_Evil()),
        "a path outside": good.replace(b"__0_0.distcp", b"../../passwd"),
        "a file that is missing": good.replace(b"__0_0.distcp", b"__7_0.distcp"),
        "another class": good.replace(b"ChunkStorageMetadata", b"BytesStorageMetadata"),
    }
    for what, metadata in bad.items():
        folder = tmp_path / what
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        (folder / ".metadata").write_bytes(metadata)
        with pytest.raises(CheckpointException):
            dcp.FileSystemReader(folder).read_metadata()
    assert not os.path.exists("/tmp/oneflow-was-here")
    folder = tmp_path / "short files"
    folder.mkdir()
    (folder / ".metadata").write_bytes(good)
    for name, data in files.items():
        (folder / name).write_bytes(data[: len(data) // 2])
    with pytest.raises(CheckpointException, match=r"has \d+ bytes"):
        dcp.load({"step": 0}, checkpoint_id=folder)
