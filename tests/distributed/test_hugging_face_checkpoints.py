"""Folders of safetensors files: PyTorch reads ours, we read theirs; damaged ones are refused."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import oneflow
import oneflow.distributed as dist
import oneflow.distributed.checkpoint as dcp
import pytest
import torch
import torch.distributed.checkpoint as torch_dcp
from distributed import twice
from oneflow.distributed.checkpoint import CheckpointException, _hf
from oneflow.distributed.tensor import Replicate, Shard, distribute_tensor
from oneflow.testing import run_ranks
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")

DTYPES = ["float32", "float64", "bfloat16", "float16", "int64", "int8", "uint8", "bool"]
ROWS = torch.arange(35.0).reshape(7, 5)


def whole(package: Any) -> dict[str, Any]:
    """Tensors of every dtype, of no dimensions and of no elements."""
    rows = package.arange(35.0).reshape(7, 5)
    found = {f"layers.{i}.{name}": (rows + i).to(getattr(package, name)) for i, name in enumerate(DTYPES)}
    return {**found, "scalar": package.tensor(2.5), "empty": package.zeros(0, 3)}


def same(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    def plain(t: Any) -> Any:
        return str(t.dtype).rpartition(".")[2], t.tolist()

    return {k: plain(t) for k, t in ours.items()} == {k: plain(t) for k, t in theirs.items()}


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("numbers", [None, 3])
def test_whole_tensors_and_an_index(numbers: int | None, tmp_path: Path) -> None:
    mapping = None if numbers is None else {name: 1 + i % numbers for i, name in enumerate(whole(torch))}
    state = whole(oneflow)
    manifest = dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(tmp_path / "ours", mapping))
    torch_dcp.save(whole(torch), storage_writer=torch_dcp.HuggingFaceStorageWriter(str(tmp_path / "theirs"), mapping))
    assert files_of(tmp_path / "ours") == files_of(tmp_path / "theirs") and set(manifest.tensors) == set(state)
    index = json.loads((tmp_path / "ours" / "model.safetensors.index.json").read_text())
    theirs = json.loads((tmp_path / "theirs" / "model.safetensors.index.json").read_text())
    assert index["weight_map"] == theirs["weight_map"]
    assert index["metadata"]["total_size"] == sum(t.numel() * t.element_size() for t in whole(torch).values())
    for file in set(index["weight_map"].values()):
        assert same(load_file(tmp_path / "ours" / file), load_file(tmp_path / "theirs" / file))
    # Each reads the other's.
    into = {name: oneflow.zeros_like(t) for name, t in state.items()}
    dcp.load(into, storage_reader=dcp.HuggingFaceStorageReader(tmp_path / "theirs"))
    assert same(into, whole(torch))
    back = {name: torch.zeros_like(t) for name, t in whole(torch).items()}
    torch_dcp.load(back, storage_reader=torch_dcp.HuggingFaceStorageReader(str(tmp_path / "ours")))
    assert same(state, back)


def test_files_without_an_index_and_a_part_of_the_names(tmp_path: Path) -> None:
    save_file({"a": ROWS.clone(), "b": ROWS[:2].clone()}, tmp_path / "x.safetensors")
    save_file({"c": ROWS.half()}, tmp_path / "y.safetensors")
    reader = dcp.HuggingFaceStorageReader(tmp_path)
    assert {name: entry.shape for name, entry in reader.read_metadata().tensors.items()} == {
        "a": (7, 5),
        "b": (2, 5),
        "c": (7, 5),
    }
    state = {"model": {"c": oneflow.zeros(7, 5)}}
    with pytest.raises(RuntimeError, match="Missing key"):
        dcp.load(state, storage_reader=reader)
    flat = {"c": oneflow.zeros(7, 5, dtype=oneflow.float16), "b": oneflow.zeros(2, 5)}
    dcp.load(flat, storage_reader=reader)
    assert flat["c"].tolist() == ROWS.tolist() and flat["b"].tolist() == ROWS[:2].tolist()
    with pytest.raises(ValueError, match="Size mismatch"):
        dcp.load({"b": oneflow.zeros(3, 5)}, storage_reader=reader)


@pytest.mark.parametrize("consolidates", [False, True])
def test_parts_of_several_ranks(consolidates: bool, tmp_path: Path) -> None:
    body = """
import os, time
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (n,))
rows = torch.arange(35.0).reshape(7, 5)
state = {
    "rows": distribute_tensor(rows, mesh, [Shard(0)]),
    "columns": distribute_tensor(rows.bfloat16(), mesh, [Shard(1)]),
    "same": distribute_tensor(rows[:2], mesh, [Replicate()]),
}
writer = HuggingFaceStorageWriter(
    meeting, fqn_to_index_mapping={"rows": 1, "columns": 2, "same": 2}, save_distributed=True,
    enable_consolidation=CONSOLIDATES)
dcp.save(state, storage_writer=writer)
place = os.path.join(meeting, "sharded") if CONSOLIDATES else meeting
for layout in ([Shard(0)], [Shard(1)], [Replicate()]):
    into = {name: distribute_tensor(torch.zeros_like(x.full_tensor()), mesh, layout) for name, x in state.items()}
    dcp.load(into, storage_reader=HuggingFaceStorageReader(place))
    say(*[into[name].full_tensor().float() for name in sorted(into)])
dist.barrier()
say(*sorted(os.listdir(meeting)))
"""
    found = twice.both(body.replace("CONSOLIDATES", str(consolidates)), tmp_path, 2)
    values = [[said[:3] for said in ranks] for ranks in found.values()]
    assert values[0] == values[1]
    sharded = Path("sharded") if consolidates else Path()
    theirs, ours = tmp_path / "torch", tmp_path / "oneflow"
    if consolidates:
        names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
        for name in names:
            assert same(load_file(ours / name), load_file(theirs / name))
    # Each reads the parts of the other.
    into = {"rows": oneflow.zeros(7, 5), "columns": oneflow.zeros(7, 5, dtype=oneflow.bfloat16)}
    dcp.load(into, storage_reader=dcp.HuggingFaceStorageReader(theirs / sharded))
    back = {"rows": torch.zeros(7, 5), "columns": torch.zeros(7, 5, dtype=torch.bfloat16)}
    torch_dcp.load(back, storage_reader=torch_dcp.HuggingFaceStorageReader(str(ours / sharded)))
    assert same(into, back) and into["rows"].tolist() == ROWS.tolist()


@pytest.mark.parametrize("delay", [0.0, 0.3], ids=["as_it_comes", "slow_first_rank"])
def test_a_second_save_replaces_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay: float) -> None:
    remove_stale = _hf._remove_stale

    def late(*args: Any) -> None:
        time.sleep(delay)
        remove_stale(*args)

    # Only the first rank removes; the others read nothing before it has.
    monkeypatch.setattr(_hf, "_remove_stale", late)

    def rank(n: int) -> Any:
        def run() -> set[str]:
            mesh = dist.init_device_mesh("cpu", (n,))
            writer = dcp.HuggingFaceStorageWriter(tmp_path, save_distributed=True)
            state = {"w": distribute_tensor(oneflow.full((6,), float(n)), mesh, [Shard(0)])}
            manifest = dcp.save(state, storage_writer=writer)
            return {chunk.file for chunk in manifest.tensors["w"].chunks}

        return run

    for n in (3, 2):
        read = run_ranks(n, rank(n))
        assert read == [set(files_of(tmp_path))] * n
        into = {"w": oneflow.zeros(6)}
        dcp.load(into, storage_reader=dcp.HuggingFaceStorageReader(tmp_path))
        assert into["w"].tolist() == [float(n)] * 6 and len(files_of(tmp_path)) == n


def test_what_cannot_be_written(tmp_path: Path) -> None:
    writer = dcp.HuggingFaceStorageWriter(tmp_path / "new")
    with pytest.raises(TypeError, match=r"tensors alone.*'step'"):
        dcp.save({"w": oneflow.ones(2), "step": 3}, storage_writer=writer)
    with pytest.raises(CheckpointException, match="complex128"):
        dcp.save({"w": oneflow.ones(2, dtype=oneflow.complex128)}, storage_writer=writer)
    for mapping in ({}, {"other": 1}, {"w": 0}, {"w": "1"}):
        wrong = dcp.HuggingFaceStorageWriter(tmp_path / "new", {"x": 1, **mapping})
        with pytest.raises(ValueError, match="fqn_to_index_mapping gives 'w'"):
            dcp.save({"w": oneflow.ones(2)}, storage_writer=wrong)
    with pytest.raises(ValueError, match="enable_consolidation"):
        dcp.HuggingFaceStorageWriter(tmp_path, enable_consolidation=True)
    with pytest.raises(NotImplementedError, match="async_save"):
        dcp.async_save({"w": oneflow.ones(2)}, storage_writer=writer)

    def rank() -> None:
        mesh = dist.init_device_mesh("cpu", (2,))
        state = {"w": distribute_tensor(oneflow.ones(2), mesh, [Replicate()])}
        with pytest.raises(ValueError, match="save_distributed=True"):
            dcp.save(state, storage_writer=writer)

    run_ranks(2, rank)


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    def refused(words: str, folder: Path) -> None:
        with pytest.raises(CheckpointException, match=words):
            dcp.load({"a": oneflow.zeros(7, 5)}, storage_reader=dcp.HuggingFaceStorageReader(folder))

    refused("holds no .safetensors files", tmp_path)

    def folder(name: str, files: dict[str, Any], index: Any = None) -> Path:
        made = tmp_path / name
        made.mkdir()
        for file, (tensors, metadata) in files.items():
            save_file(tensors, made / file, metadata)
        if index is not None:
            text = index if isinstance(index, str) else json.dumps({"weight_map": index})
            (made / "model.safetensors.index.json").write_text(text)
        return made

    a = {"a": ROWS.clone()}
    refused("is damaged", folder("text", {"x.safetensors": (a, None)}, "{"))
    refused("is damaged", folder("list", {"x.safetensors": (a, None)}, "[1]"))
    refused("is damaged.*no name of a file", folder("path", {"x.safetensors": (a, None)}, {"a": "../x.safetensors"}))
    refused("y.safetensors, which is missing", folder("gone", {"x.safetensors": (a, None)}, {"a": "y.safetensors"}))
    refused("names 'b', which", folder("less", {"x.safetensors": (a, None)}, {"b": "x.safetensors"}))
    for i, offsets in enumerate(([0], [-1, 0], ["0", 0], [2**63, 0], None)):
        said = {"DCP_SHARDING_INFO": json.dumps({"a": {"saved_offsets": offsets}})}
        refused("is damaged", folder(f"offsets{i}", {"x.safetensors": (a, said)}))
    for i, text in enumerate(("{", "[]", '{"b": {}}', '{"a": 3}')):
        refused("is damaged", folder(f"said{i}", {"x.safetensors": (a, {"DCP_SHARDING_INFO": text})}))
    far = {"DCP_SHARDING_INFO": json.dumps({"a": {"saved_offsets": [2, 0]}})}
    with pytest.raises(ValueError, match="Size mismatch"):
        dcp.load(
            {"a": oneflow.zeros(7, 5)},
            storage_reader=dcp.HuggingFaceStorageReader(folder("far", {"x.safetensors": (a, far)})),
        )
    half = {"a": ROWS[:3].clone()}
    parts = {"x.safetensors": (half, {"DCP_SHARDING_INFO": json.dumps({"a": {"saved_offsets": [4, 0]}})})}
    refused("holds 15 of 35 elements", folder("holes", parts))
    refused("twice|of 35 elements", folder("twice", {"x.safetensors": (a, None), "y.safetensors": (a, None)}))
    refused(
        "in one file, and float64",
        folder("kinds", {"x.safetensors": (a, None), "y.safetensors": ({"a": ROWS.double()}, None)}),
    )
    cut = folder("cut", {"x.safetensors": (a, None)})
    os.truncate(cut / "x.safetensors", 60)
    refused("is damaged", cut)
