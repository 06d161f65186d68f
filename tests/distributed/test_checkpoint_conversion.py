"""Checkpoints of several ranks from and to one file, of this package and of PyTorch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import oneflow
import oneflow.distributed as dist
import oneflow.distributed.checkpoint as dcp
import pytest
import torch
import torch.distributed.checkpoint as theirs
from oneflow.distributed.checkpoint.filesystem import SerializationFormat
from oneflow.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
from oneflow.distributed.tensor import Shard, distribute_tensor
from oneflow.testing import run_ranks
from torch.distributed.checkpoint import format_utils as theirs_utils

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled", "ignore:.*TypedStorage")
FORMATS = {"plain": SerializationFormat.SAFETENSORS, "dcp": SerializationFormat.TORCH_SAVE}


def state(package: Any) -> dict[str, Any]:
    """With what stands in checkpoints: an optimizer's numbers as keys, lists of tensors and of dictionaries."""
    steps = {0: {"step": package.tensor(1.0), "exp_avg": package.ones(2)}, 1: {"step": package.tensor(2.0)}}
    return {
        "model": {"l.0.w": package.arange(6.0).view(3, 2), "b": package.zeros(0)},
        "optimizer": {"state": steps, "param_groups": [{"lr": 0.1, "params": [0, 1]}, {"lr": 0.2, "params": [2]}]},
        "parts": [package.tensor([float(i)]) for i in range(12)],
        "epoch": 5,
    }


def plain(value: Any) -> Any:
    """The same without tensors."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def as_saved(nest: Any) -> Any:
    """What comes back: keys are texts."""
    if isinstance(nest, dict):
        return {str(key): as_saved(item) for key, item in nest.items()}
    return [as_saved(item) for item in nest] if isinstance(nest, list) else nest


@pytest.mark.parametrize("form", FORMATS)
def test_a_checkpoint_becomes_the_file_that_pytorch_makes_of_it(form: str, tmp_path: Path) -> None:
    def rank() -> None:
        own = state(oneflow)
        whole = own["model"]["l.0.w"]
        own["model"]["l.0.w"] = distribute_tensor(whole, dist.init_device_mesh("cpu", (2,)), [Shard(0)])
        dcp.save(own, storage_writer=dcp.FileSystemWriter(tmp_path / "run", serialization_format=FORMATS[form]))

    run_ranks(2, rank)
    dcp_to_torch_save(tmp_path / "run", tmp_path / "mine.pt")
    expected = as_saved(plain(state(oneflow)))
    assert plain(oneflow.load(tmp_path / "mine.pt")) == expected
    assert list(oneflow.load(tmp_path / "mine.pt")) == list(expected)
    assert plain(torch.load(tmp_path / "mine.pt")) == expected
    if form == "dcp":
        theirs_utils.dcp_to_torch_save(tmp_path / "run", tmp_path / "theirs.pt")
        assert plain(torch.load(tmp_path / "theirs.pt")) == expected


def test_a_checkpoint_of_pytorch_becomes_a_file(tmp_path: Path) -> None:
    theirs.save(state(torch), checkpoint_id=tmp_path / "run", no_dist=True)
    dcp_to_torch_save(tmp_path / "run", tmp_path / "mine.pt")
    assert plain(oneflow.load(tmp_path / "mine.pt")) == as_saved(plain(state(torch)))


def test_a_file_becomes_a_checkpoint_of_both(tmp_path: Path) -> None:
    torch.save(state(torch), tmp_path / "run.pt")
    torch_save_to_dcp(tmp_path / "run.pt", tmp_path / "run")
    for package, load in ((oneflow, dcp.load), (torch, theirs.load)):
        found = state(package)
        found["model"]["l.0.w"].zero_()
        found["epoch"] = 0
        load(found, checkpoint_id=tmp_path / "run", no_dist=True)
        assert plain(found) == plain(state(torch))
    oneflow.save([oneflow.ones(1)], tmp_path / "list.pt")
    with pytest.raises(TypeError, match="holds a list, expected a dictionary"):
        torch_save_to_dcp(tmp_path / "list.pt", tmp_path / "run")


@pytest.mark.parametrize(
    ("paths", "text"),
    [
        (None, "does not say where its entry 'a.b' stood"),
        ([["a.b", ["a", "b"]], ["c", ["a", "b", "c"]]], "its entry 'c' has no place"),
        ([["a.b", ["a", 1 << 40]], ["c", ["c"]]], "is no part of a path"),
        ([["a.b", []], ["c", ["c"]]], "is no path of an entry"),
        ([["a.b", ["a", 1.5]], ["c", ["c"]]], "is no part of a path"),
        ([3], "is damaged"),
    ],
)
def test_damaged_paths_are_refused(paths: Any, text: str, tmp_path: Path) -> None:
    dcp.save({"a": {"b": oneflow.ones(2)}, "c": 3}, checkpoint_id=tmp_path)
    table = json.loads((tmp_path / ".metadata.json").read_text())
    table["paths"] = paths
    if paths is None:
        del table["paths"]
    (tmp_path / ".metadata.json").write_text(json.dumps(table))
    with pytest.raises(dcp.CheckpointException, match=text):
        dcp_to_torch_save(tmp_path, tmp_path / "whole.pt")
