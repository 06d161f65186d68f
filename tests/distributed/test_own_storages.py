"""Checkpoints in a storage that the program writes itself: calls, items and values, compared with PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import oneflow
import oneflow.distributed.checkpoint as dcp
import pytest
from distributed.twice import both
from oneflow.futures import Future
from oneflow.testing import run_ranks

PROGRAM = """
import dataclasses, pathlib, pickle
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.futures import Future

dist.init_process_group("gloo")
folder = pathlib.Path(meeting)
folder.mkdir(exist_ok=True)
calls = []

def complete(value):
    future = Future()
    future.set_result(value)
    return future

class Writer(StorageWriter):
    def reset(self, checkpoint_id=None):
        calls.append(["reset", checkpoint_id])
        self.name = checkpoint_id
    def storage_meta(self):
        calls.append(["storage_meta"])
        return StorageMeta(checkpoint_id=self.name)
    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        calls.append(["set_up", is_coordinator])
    def prepare_local_plan(self, plan):
        calls.append(["local", len(plan.items)])
        return dataclasses.replace(plan, storage_data={"from": rank})
    def prepare_global_plan(self, plans):
        calls.append(["global", [plan.storage_data for plan in plans]])
        return plans
    def write_data(self, plan, planner):
        results = []
        for i, item in enumerate(sorted(plan.items, key=lambda item: (item.index.fqn, item.index.offset or ()))):
            data, path = planner.resolve_data(item), f"{rank}_{i}"
            is_bytes = item.type == WriteItemType.BYTE_IO
            calls.append(["write", item.index.fqn, list(item.index.offset or []), is_bytes, plan.storage_data])
            (folder / path).write_bytes(data.getvalue() if is_bytes else pickle.dumps(data.detach().clone()))
            results.append(WriteResult(item.index, 0 if is_bytes else data.numel(), path))
        return complete(results)
    def finish(self, metadata, results):
        rows = sorted((w.index.fqn, list(w.index.offset or []), w.size_in_bytes) for r in results for w in r)
        calls.append(["finish", sorted(metadata.state_dict_metadata), rows])
        metadata.storage_data = {w.index: w.storage_data for r in results for w in r}
        (folder / "metadata").write_bytes(pickle.dumps(metadata))
    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return True

class Reader(StorageReader):
    def reset(self, checkpoint_id=None):
        calls.append(["reset", checkpoint_id])
    def read_metadata(self, *args, **kwargs):
        calls.append(["metadata"])
        return pickle.loads((folder / "metadata").read_bytes())
    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        calls.append(["set_up", is_coordinator])
        self.files = metadata.storage_data
    def prepare_local_plan(self, plan):
        calls.append(["local", len(plan.items)])
        return plan
    def prepare_global_plan(self, plans):
        calls.append(["global", len(plans)])
        return plans
    def read_data(self, plan, planner):
        import io
        for item in plan.items:
            data = (folder / self.files[item.storage_index]).read_bytes()
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(data))
                continue
            part = pickle.loads(data)
            for dim, (start, length) in enumerate(zip(item.storage_offsets, item.lengths)):
                part = part.narrow(dim, start, length)
            target = planner.resolve_tensor(item).detach()
            target.copy_(part)
            planner.commit_tensor(item, target)
        return complete(None)
    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return True

def told():
    found = calls[:]
    calls.clear()
    return found

mesh = init_device_mesh("cpu", (n,))
def state(placement, fill):
    x = torch.arange(12.0).view(6, 2) if fill else torch.zeros(6, 2)
    return {"model": {"w": distribute_tensor(x, mesh, [placement])}, "plain": torch.ones(3) * fill, "step": 7 * fill,
            "words": {"a": "b" if fill else ""}}

for source in (Shard(0), Shard(1), Replicate()):
    writer = Writer()
    dcp.save(state(source, 1), checkpoint_id="first", storage_writer=writer)
    calls_of_save = [c for c in told() if c[0] != "write" or c[1] == "model.w" and source != Replicate()]
    say("save", repr(source), calls_of_save)
    dist.barrier()
    for to in (Shard(0), Shard(1), Replicate()):
        got = state(to, 0)
        dcp.load(got, checkpoint_id="first", storage_reader=Reader())
        say("load", repr(to), told(), got["model"]["w"].full_tensor().tolist(), got["plain"].tolist(), got["step"],
            got["words"])
    dist.barrier()
pairs = [(dcp.FileSystemWriter(folder), StorageWriter), (dcp.FileSystemReader(folder), StorageReader)]
say("kinds", [isinstance(value, kind) for value, kind in pairs], dcp.StorageWriter is StorageWriter)
"""


def test_calls_and_values_are_those_of_torch(tmp_path: Path) -> None:
    found = both(PROGRAM, tmp_path, 2)
    for theirs, ours in zip(found["torch"], found["oneflow"], strict=True):
        assert len(theirs) == len(ours) == 13
        for expected, value in zip(theirs, ours, strict=True):
            assert value == expected


class Memory(dcp.StorageWriter):
    def __init__(self, fails: str = "", data: Any = None) -> None:
        self.fails, self.data = fails, data

    def _step(self, name: str) -> None:
        if name == self.fails:
            raise OSError(f"no room in {name}")

    def reset(self, checkpoint_id: Any = None) -> None:
        self._step("reset")

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self._step("set_up")

    def prepare_local_plan(self, plan: Any) -> Any:
        self._step("local")
        return plan

    def prepare_global_plan(self, plans: Any) -> Any:
        self._step("global")
        return plans

    def write_data(self, plan: Any, planner: Any) -> Future:
        self._step("write")
        done: Future = Future()
        done.set_result([dcp.storage.WriteResult(item.index, 0, self.data) for item in plan.items])
        return done

    def finish(self, metadata: Any, results: Any) -> None:
        self._step("finish")

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return True


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("step", ["reset", "set_up", "local", "global", "write", "finish"])
def test_all_ranks_hear_of_a_failure(step: str, n: int) -> None:
    def rank() -> None:
        fails = step if oneflow.distributed.get_rank() == 0 else ""
        with pytest.raises(dcp.CheckpointException, match=f"rank 0: OSError: no room in {step}") as error:
            dcp.save({"w": oneflow.ones(2)}, storage_writer=Memory(fails))
        assert {r: type(found) for r, (found, _) in error.value.failures.items()} == {0: OSError}
        lines = error.value.failures[0][1]
        assert (lines is not None and lines[-1].name == "_step") == bool(fails)

    run_ranks(n, rank)


def test_methods_that_nobody_calls_are_refused(tmp_path: Path) -> None:
    class Writer(dcp.FileSystemWriter):
        def write_data(self, plan: Any, planner: Any) -> Any:
            raise AssertionError

    class Reader(dcp.FileSystemReader):
        def prepare_local_plan(self, plan: Any) -> Any:
            raise AssertionError

    with pytest.raises(NotImplementedError, match=r"save: Writer\.write_data would not be called"):
        dcp.save({"w": oneflow.ones(1)}, storage_writer=Writer(tmp_path))
    with pytest.raises(NotImplementedError, match=r"load: Reader\.prepare_local_plan would not be called"):
        dcp.load({"w": oneflow.ones(1)}, storage_reader=Reader(tmp_path))


def test_what_is_no_storage_is_refused() -> None:
    with pytest.raises(TypeError, match="Can't instantiate abstract class StorageWriter"):
        dcp.StorageWriter()
    with pytest.raises(TypeError, match="save: storage_writer must be a StorageWriter, got int"):
        dcp.save({}, storage_writer=3)
    with pytest.raises(TypeError, match="load: storage_reader must be a StorageReader, got Memory"):
        dcp.load({}, storage_reader=Memory())
    with pytest.raises(NotImplementedError, match="async_save: a storage of the program is written by save"):
        dcp.async_save({"w": oneflow.ones(1)}, storage_writer=Memory())
