"""Checkpoints of several ranks: saved under one layout and number of ranks, loaded under another; failures on the
way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import oneflow as torch
import oneflow.distributed.checkpoint as dcp
import oneflow.nn as nn
import pytest
from oneflow import distributed as dist
from oneflow.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from oneflow.distributed.device_mesh import init_device_mesh
from oneflow.distributed.fsdp import FullyShardedDataParallel, fully_shard
from oneflow.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from oneflow.testing import run_ranks

DTYPES = "float32 float64 bfloat16 float16 int64 int32 uint8 bool complex64 complex128".split()
LAYOUTS: dict[int, list[tuple[tuple[int, ...], list[Any]]]] = {
    1: [((1,), [Shard(0)])],
    2: [((2,), [Shard(1)])],
    3: [((3,), [Shard(0)]), ((3,), [Replicate()])],
    4: [
        ((2, 2), [Shard(0), Shard(1)]),
        ((4,), [Shard(0)]),
        ((2, 2), [Shard(1), Shard(1)]),
        ((2, 2), [Replicate(), Shard(0)]),
    ],
}


def values() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    found = {name: torch.randn(7, 5, generator=generator).mul(9).to(getattr(torch, name)) for name in DTYPES}
    return {
        **found,
        "small": torch.randn(2, 9, generator=generator),
        "number": torch.tensor(3.5),
        "none": torch.empty(0, 4),
    }


def state(shape: tuple[int, ...], placements: list[Any], filled: bool) -> dict[str, Any]:
    mesh = init_device_mesh("cpu", shape)
    spread = {}
    for name, value in values().items():
        value = value if filled else torch.zeros_like(value)
        spread[name] = distribute_tensor(value, mesh, placements) if value.dim() == 2 and len(value) > 2 else value
    layers = [{"w": spread.pop("small")}, {"w": torch.arange(3) if filled else torch.zeros(3, dtype=torch.int64)}]
    return {"model": spread, "layers": layers, "step": 7 if filled else 0, "name": "a b" if filled else None}


def save_as(folder: str, layout: Any, by: Any = dcp.save) -> dict[str, int]:
    made = by(state(*layout, True), checkpoint_id=folder)
    return made.files if made is not None and hasattr(made, "files") else {}


def load_as(folder: str, layout: Any) -> None:
    found = state(*layout, False)
    dcp.load(found, checkpoint_id=folder)
    assert (found["step"], found["name"]) == (7, "a b")
    expected = values()
    assert torch.equal(found["layers"][0]["w"], expected.pop("small")) and found["layers"][1]["w"].tolist() == [0, 1, 2]
    for name, value in expected.items():
        loaded = found["model"][name]
        whole = loaded.full_tensor() if loaded.is_global else loaded
        assert whole.dtype == value.dtype and torch.equal(whole, value), name


CASES = [(n, layout) for n, layouts in LAYOUTS.items() for layout in layouts]


def test_any_layout_is_loaded_from_any_other(tmp_path: Path) -> None:
    for i, (n, layout) in enumerate(CASES):
        folder = str(tmp_path / f"from{i}")
        files = run_ranks(n, save_as, folder, layout)[0]
        assert set(os.listdir(folder)) == {*files, ".metadata.json"}
        n_bytes = sum(v.numel() * v.element_size() for v in values().values()) + 3 * 8
        stored = sum(os.stat(Path(folder) / f).st_size for f in files if f.endswith("safetensors"))
        # Each element once: what is left are headers.
        assert n_bytes <= stored < n_bytes + 2500 * n
    for i in range(len(CASES)):
        m, other = CASES[(i + 3) % len(CASES)]
        run_ranks(m, load_as, str(tmp_path / f"from{i}"), other)
    for m, other in CASES:
        run_ranks(m, load_as, str(tmp_path / "from4"), other)


def test_training_goes_on_under_other_ranks_bit_for_bit(tmp_path: Path) -> None:
    """Four ranks, then two by two, one, and three: tensors are equal bit for bit, and so is a step of each."""

    def make(n: int) -> Any:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(6, 10), nn.GELU(), nn.Linear(10, 3))
        shape = {4: (2, 2)}.get(n, (1, n))
        fully_shard(model, mesh=init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")))
        return model, torch.optim.AdamW(model.parameters(), lr=0.1)

    def step(model: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        model(torch.ones(2, 6)).square().mean().backward()
        optimizer.step()

    def collected(model: Any, optimizer: Any) -> Any:
        options = StateDictOptions(full_state_dict=True)
        of_model, of_optimizer = get_state_dict(model, optimizer, options=options)
        moments = {
            f"{k}.{m}": v[m] for k, v in of_optimizer["state"].items() for m in ("exp_avg", "exp_avg_sq", "step")
        }
        return {k: v.tolist() for k, v in {**of_model, **moments}.items()}

    def first() -> Any:
        model, optimizer = make(4)
        step(model, optimizer)
        torch.manual_seed(5)
        torch.rand(3)
        of_model, of_optimizer = get_state_dict(model, optimizer)
        every = {"model": of_model, "optimizer": of_optimizer, "rng": torch.get_rng_state()}
        dcp.save(every, checkpoint_id=tmp_path / "a")
        return collected(model, optimizer), torch.rand(2).tolist()

    def again(source: str, target: str) -> Any:
        model, optimizer = make(dist.get_world_size())
        of_model, of_optimizer = get_state_dict(model, optimizer)
        every = {"model": of_model, "optimizer": of_optimizer, "rng": torch.get_rng_state()}
        dcp.load(every, checkpoint_id=tmp_path / source)
        set_state_dict(model, optimizer, model_state_dict=every["model"], optim_state_dict=every["optimizer"])
        torch.set_rng_state(every["rng"])
        drawn = torch.rand(2).tolist()
        torch.set_rng_state(every["rng"])
        dcp.save(every, checkpoint_id=tmp_path / target)
        found = collected(model, optimizer)
        step(model, optimizer)
        return found, drawn, collected(model, optimizer)

    expected, drawn = run_ranks(4, first)[0]
    nexts = []
    for n, source, target in ((4, "a", "b"), (2, "b", "c"), (1, "c", "d"), (3, "d", "e")):
        for found, numbers, after in run_ranks(n, again, source, target):
            assert found == expected and numbers == drawn
            nexts.append(after)
    for after in nexts[1:]:
        for name, value in after.items():
            assert torch.allclose(torch.tensor(value), torch.tensor(nexts[0][name]), rtol=1e-5, atol=1e-6), name


def test_asynchronous_saves_take_what_was_there(tmp_path: Path) -> None:
    def rank() -> None:
        every = state((2,), [Shard(0)], True)
        future = dcp.async_save(every, checkpoint_id=tmp_path / "a")
        for value in every["model"].values():
            value.zero_()
        # Collectives of training go on meanwhile.
        x = torch.ones(1)
        for _ in range(5):
            dist.all_reduce(x)
        second = dcp.async_save(every, checkpoint_id=tmp_path / "b")
        assert future.done()
        second.result(60)
        load_as(str(tmp_path / "a"), ((2,), [Shard(1)]))

    run_ranks(2, rank)


def test_state_dictionary_functions() -> None:
    def rank() -> None:
        torch.manual_seed(0)
        model = FullyShardedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
        model.module[1].bias.requires_grad_(False)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        flat = StateDictOptions(flatten_optimizer_state_dict=True)
        names = set(get_optimizer_state_dict(model, optimizer, options=flat))
        assert "state.0.weight.exp_avg" in names and "param_groups.0.weight.lr" in names
        assert optimizer.param_groups[0]["lr"] == 0.1
        trained = get_model_state_dict(model, options=StateDictOptions(ignore_frozen_params=True))
        assert list(trained) == ["0.weight", "0.bias", "1.weight"]
        whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        assert bool(whole) == (dist.get_rank() == 0)
        doubled = {k: v * 2 for k, v in whole.items()}
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_model_state_dict(model, doubled, options=options)
        now = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
        before = whole or {k: v / 2 for k, v in now.items()}
        assert all(torch.equal(now[k], before[k] * 2) for k in now)
        with pytest.raises(RuntimeError, match="missing keys"):
            set_model_state_dict(model, {"0.weight": now["0.weight"]})
        with pytest.raises(ValueError, match="make it after"):
            get_optimizer_state_dict(model, torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0))

    run_ranks(2, rank)


def test_what_is_damaged_missing_or_wrong_is_said(tmp_path: Path) -> None:
    w = torch.arange(12.0).view(4, 3)
    good = tmp_path / "good"
    dcp.save({"w": w, "n": {"a": 1}}, checkpoint_id=good)

    def attempt(text: str, kind: Any, entries: Any, change: Any = None) -> None:
        folder = tmp_path / f"bad{len(os.listdir(tmp_path))}"
        folder.mkdir()
        for path in good.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        if change is not None:
            change(folder)
        with pytest.raises(kind, match=text):
            dcp.load(entries, checkpoint_id=folder)

    def edit(change: Any) -> Any:
        def do(folder: Path) -> None:
            table = json.loads((folder / ".metadata.json").read_text())
            change(table)
            (folder / ".metadata.json").write_text(json.dumps(table))

        return do

    zero = {"w": torch.zeros(4, 3)}
    part = next(p.name for p in good.iterdir() if p.name.startswith("part"))
    attempt("Missing key in checkpoint state_dict: v", RuntimeError, {"v": torch.zeros(1)})
    attempt("Size mismatch", ValueError, {"w": torch.zeros(3, 4)})
    attempt("holds no checkpoint", dcp.CheckpointException, zero, lambda f: (f / ".metadata.json").unlink())
    attempt("lacks its file", dcp.CheckpointException, zero, lambda f: (f / part).unlink())
    attempt("has 3 bytes", dcp.CheckpointException, zero, lambda f: (f / part).write_bytes(b"abc"))
    attempt("is damaged", dcp.CheckpointException, zero, lambda f: (f / ".metadata.json").write_text("{"))
    for change in (
        lambda t: t.update(version=99),
        lambda t: t.update(format="other"),
        lambda t: t["files"].update({"../x": 1}),
        lambda t: t["tensors"]["w"].update(dtype="load"),
        lambda t: t["tensors"]["w"].update(shape=[-1, 3]),
        lambda t: t["tensors"]["w"]["chunks"][0].update(offsets=[3, 0]),
        lambda t: t["tensors"]["w"]["chunks"][0].update(file="gone"),
        lambda t: t["tensors"].update(w=3),
    ):
        attempt("is damaged", dcp.CheckpointException, zero, edit(change))
    attempt(
        "has 'w' with",
        dcp.CheckpointException,
        zero,
        edit(lambda t: t["tensors"]["w"]["chunks"][0].update(sizes=[1, 3])),
    )
    attempt("holds 0 of 12", dcp.CheckpointException, zero, edit(lambda t: t["tensors"]["w"].update(chunks=[])))
    attempt(
        "no tensor 'q'", dcp.CheckpointException, zero, edit(lambda t: t["tensors"]["w"]["chunks"][0].update(key="q"))
    )
    assert zero["w"].abs().max() == 0
    more = {"w": torch.zeros(4, 3), "v": torch.ones(1)}
    dcp.load(more, checkpoint_id=good, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
    assert torch.equal(more["w"], w) and more["v"].item() == 1
    with pytest.raises(dcp.CheckpointException, match="overwrite is false"):
        dcp.save({"w": w}, storage_writer=dcp.FileSystemWriter(good, overwrite=False))
    with pytest.raises(ValueError, match="is the name of two paths"):
        dcp.save({"a.b": w, "a": {"b": w}}, checkpoint_id=tmp_path / "twice")

    def rank() -> None:
        if dist.get_rank() == 1:
            # Rank 0 reads well, and must not go on.
            with pytest.raises(RuntimeError, match="Missing key"):
                dcp.load({"v": torch.zeros(1)}, checkpoint_id=good)
        else:
            with pytest.raises(dcp.CheckpointException, match="could not be read: rank 1: RuntimeError"):
                dcp.load({"w": torch.zeros(4, 3)}, checkpoint_id=good)
        mesh = init_device_mesh("cpu", (2,))
        partial = torch.zeros(4, 3).to_global(mesh.placement, torch.sbp.partial_sum)
        assert partial.placements == (Partial(),)
        with pytest.raises(ValueError, match="cannot be loaded into"):
            dcp.load({"w": partial}, checkpoint_id=good)

    run_ranks(2, rank)


CRASH = """
import os, sys
import oneflow, oneflow.distributed.checkpoint as dcp
folder, calls = sys.argv[1], 0

def hook(event, args):
    global calls
    if fatal and event in ("open", "os.rename", "os.remove", "os.mkdir") and folder in str(args[0]):
        calls += 1
        if calls == fatal:
            os.kill(os.getpid(), 9)

fatal = 0
sys.addaudithook(hook)
state = {"w": oneflow.full((1000,), 1.0), "step": 1}
dcp.save(state, checkpoint_id=folder)
killed = 0
while True:
    child = os.fork()
    if child == 0:
        fatal = killed + 1
        dcp.save({"w": oneflow.full((1000,), 2.0), "step": 2}, checkpoint_id=folder)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    found = {"w": oneflow.zeros(1000), "step": 0}
    dcp.load(found, checkpoint_id=folder)
    assert found["step"] in (1, 2) and found["w"].eq(float(found["step"])).all(), found
    if status == 0:
        break
    assert os.WTERMSIG(status) == 9, status
    killed += 1
assert killed > 6 and found["step"] == 2, killed
dcp.save({"w": oneflow.ones(1), "step": 3}, checkpoint_id=folder)
# What killed writers have left is gone.
assert len(os.listdir(folder)) == 3, os.listdir(folder)
"""


def test_a_writer_killed_at_any_step_leaves_the_old_checkpoint_or_the_new_one(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CRASH, str(tmp_path / "checkpoint")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment)
    assert done.returncode == 0, done.stderr


def test_a_full_disk_is_an_error_on_every_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from oneflow.distributed.checkpoint import _save

    folder = tmp_path / "checkpoint"
    dcp.save({"w": torch.ones(4)}, checkpoint_id=folder)
    whole = _save.save_file

    def full(tensors: Any, path: Path) -> None:
        if "part_00001" in path.name:
            raise OSError(28, "No space left on device")
        whole(tensors, path)

    monkeypatch.setattr(_save, "save_file", full)

    def rank() -> None:
        mesh = init_device_mesh("cpu", (2,))
        spread = distribute_tensor(torch.zeros(4), mesh, [Shard(0)])
        with pytest.raises(dcp.CheckpointException, match=r"rank 1: OSError: .*No space left"):
            dcp.save({"w": spread}, checkpoint_id=folder)

    run_ranks(2, rank)
    found = {"w": torch.zeros(4)}
    dcp.load(found, checkpoint_id=folder)
    assert found["w"].tolist() == [1.0] * 4 and len(os.listdir(folder)) == 2
