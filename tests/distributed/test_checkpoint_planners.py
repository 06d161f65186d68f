"""Planners of programs: classes derived from the default ones, as PyTorch's documentation and its users write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import oneflow
import oneflow.distributed as dist
import oneflow.distributed.checkpoint as dcp
import pytest
from oneflow.distributed.checkpoint._nested_dict import flatten_state_dict
from oneflow.distributed.checkpoint._sharded_tensor_utils import _flatten_sharded_tensors
from oneflow.distributed.checkpoint.metadata import MetadataIndex, TensorStorageMetadata
from oneflow.distributed.checkpoint.planner import LoadItemType, WriteItemType
from oneflow.testing import run_ranks

FORMATS = list(dcp.filesystem.SerializationFormat)


class Prefixed(dcp.DefaultSavePlanner):
    def set_up_planner(self, state_dict: Any, storage_meta: Any = None, is_coordinator: bool = False) -> None:
        super().set_up_planner({"foo_" + k: v for k, v in state_dict.items()}, storage_meta, is_coordinator)


class WithoutPrefix(dcp.DefaultLoadPlanner):
    """Keys are changed by hand, since one of the program's dictionary is not flattened."""

    def set_up_planner(self, state_dict: Any, metadata: Any = None, is_coordinator: bool = False) -> None:
        self.original_state_dict = state_dict
        state_dict = {"foo_" + k: v for k, v in state_dict.items()}
        if self.flatten_sharded_tensors:
            state_dict = _flatten_sharded_tensors(state_dict)
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict = state_dict
        self.metadata = metadata
        self.is_coordinator = is_coordinator

    def load_bytes(self, read_item: Any, value: Any) -> None:
        self.original_state_dict[read_item.dest_index.fqn[4:]] = oneflow.load(value)


class Halves(dcp.DefaultSavePlanner):
    def create_local_plan(self) -> Any:
        plan = super().create_local_plan()
        for item in plan.items:
            if item.tensor_data is not None:
                item.tensor_data.properties.dtype = oneflow.float16
        return plan

    def resolve_data(self, write_item: Any) -> Any:
        item = super().resolve_data(write_item)
        return item if write_item.type == WriteItemType.BYTE_IO else item.to(oneflow.float16)


class FromLast(dcp.DefaultSavePlanner):
    """The last rank writes whatever it holds."""

    def create_global_plan(self, all_plans: Any) -> Any:
        taken: set[Any] = set()
        for plan in reversed(all_plans):
            plan.items = [item for item in plan.items if item.index not in taken]
            taken |= {item.index for item in plan.items}
        return all_plans, None


class Elsewhere(dcp.DefaultLoadPlanner):
    """Tensors are read into others, in float64, and counted."""

    def __init__(self) -> None:
        super().__init__()
        self.given: dict[Any, Any] = {}
        self.committed: list[str] = []

    def resolve_tensor(self, read_item: Any) -> Any:
        made = oneflow.zeros(read_item.lengths, dtype=oneflow.float64)
        self.given[read_item.dest_index] = made
        return made

    def commit_tensor(self, read_item: Any, tensor: Any) -> None:
        assert self.given[read_item.dest_index] is tensor
        self.committed.append(read_item.dest_index.fqn)
        super().resolve_tensor(read_item).copy_(tensor)


def layouts() -> tuple[Any, Any]:
    placement = oneflow.placement.all("cpu")
    return placement, (oneflow.sbp.split(0), oneflow.sbp.split(1), oneflow.sbp.broadcast)


def state() -> dict[str, Any]:
    placement, sbps = layouts()
    whole = oneflow.arange(15.0).reshape(5, 3)
    tensors = {
        f"w{i}": whole.to_global(placement=placement, sbp=oneflow.sbp.broadcast).to_global(sbp=s)
        for i, s in enumerate(sbps)
    }
    return {**tensors, "step": 7, "nest": {"local": oneflow.ones(2), "name": "x"}}


def empty() -> dict[str, Any]:
    placement, sbps = layouts()
    zeros = [oneflow.zeros(5, 3, placement=placement, sbp=s) for s in reversed(sbps)]
    return {**{f"w{i}": z for i, z in enumerate(zeros)}, "step": 0, "nest": {"local": oneflow.zeros(2), "name": ""}}


def check(found: dict[str, Any]) -> None:
    for i in range(3):
        whole = found[f"w{i}"].to_global(sbp=oneflow.sbp.broadcast).to_local()
        assert whole.tolist() == oneflow.arange(15.0).reshape(5, 3).tolist()
    assert found["nest"]["local"].tolist() == [1.0, 1.0]
    assert (found["step"], found["nest"]["name"]) == (7, "x")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("n", [1, 3])
def test_entries_have_other_names_in_the_checkpoint(n: int, kind: Any, tmp_path: Path) -> None:
    def rank() -> Any:
        given = {key: value for key, value in state().items() if key != "nest"}
        writer = dcp.FileSystemWriter(tmp_path, serialization_format=kind)
        dcp.save(given, storage_writer=writer, planner=Prefixed())
        names = sorted(dcp.FileSystemReader(tmp_path).read_metadata().state_dict_metadata)
        assert names == ["foo_step", "foo_w0", "foo_w1", "foo_w2"]
        found = {key: value for key, value in empty().items() if key != "nest"}
        dcp.load(found, checkpoint_id=tmp_path, planner=WithoutPrefix())
        check({**found, "nest": {"local": oneflow.ones(2), "name": "x"}})

    run_ranks(n, rank)


@pytest.mark.parametrize("kind", FORMATS)
def test_elements_are_saved_in_another_dtype(kind: Any, tmp_path: Path) -> None:
    def rank() -> None:
        dcp.save(state(), storage_writer=dcp.FileSystemWriter(tmp_path, serialization_format=kind), planner=Halves())
        entry = dcp.FileSystemReader(tmp_path).read_metadata().state_dict_metadata["w0"]
        assert isinstance(entry, TensorStorageMetadata)
        assert (entry.properties.dtype, entry.size) == (oneflow.float16, oneflow.Size([5, 3]))
        found = empty()
        # The default reader takes what the checkpoint has, and a planner that says so gets the same.
        dcp.load(found, checkpoint_id=tmp_path)
        check(found)
        found = empty()
        dcp.load(found, checkpoint_id=tmp_path, planner=type("Mine", (dcp.DefaultLoadPlanner,), {})())
        check(found)

    run_ranks(2, rank)


def test_ranks_share_the_work_as_a_planner_says(tmp_path: Path) -> None:
    def rank() -> None:
        manifest = dcp.save(state(), checkpoint_id=tmp_path, planner=FromLast())
        # What all hold the last one writes; of split tensors each has its own part.
        assert [chunk.file[:10] for chunk in manifest.tensors["w2"].chunks] == ["part_00002"]
        assert sorted(chunk.file[:10] for chunk in manifest.tensors["w0"].chunks) == [f"part_0000{r}" for r in range(3)]
        assert manifest.objects["step"].startswith("objects_00002")
        lowest = dcp.save(
            state(), checkpoint_id=tmp_path, planner=dcp.DefaultSavePlanner(dedup_save_to_lowest_rank=True)
        )
        assert [chunk.file[:10] for chunk in lowest.tensors["w2"].chunks] == ["part_00000"]
        found = empty()
        dcp.load(found, checkpoint_id=tmp_path)
        check(found)

    run_ranks(3, rank)


def test_tensors_are_read_into_others(tmp_path: Path) -> None:
    def rank() -> None:
        dcp.save(state(), checkpoint_id=tmp_path)
        found, planner = empty(), Elsewhere()
        dcp.load(found, checkpoint_id=tmp_path, planner=planner)
        check(found)
        assert set(planner.committed) == {"w0", "w1", "w2", "nest.local"}

    run_ranks(2, rank)


def test_a_rank_may_write_several_parts_of_one_tensor(tmp_path: Path) -> None:
    class Rows(dcp.DefaultSavePlanner):
        """Each row of a matrix is a part."""

        def create_local_plan(self) -> Any:
            import copy

            plan = super().create_local_plan()
            rows = []
            for item in plan.items:
                for at in range(item.tensor_data.size[0]):
                    row = copy.deepcopy(item)
                    row.index = MetadataIndex(item.index.fqn, (at, 0))
                    row.tensor_data.chunk.offsets, row.tensor_data.chunk.sizes = (
                        oneflow.Size([at, 0]),
                        oneflow.Size([1, 3]),
                    )
                    rows.append(row)
            plan.items = rows
            return plan

        def lookup_object(self, index: Any) -> Any:
            return super().lookup_object(index)[index.offset[0] : index.offset[0] + 1]

    w = oneflow.arange(12.0).reshape(4, 3)
    for kind in FORMATS:
        dcp.save({"w": w}, storage_writer=dcp.FileSystemWriter(tmp_path, serialization_format=kind), planner=Rows())
        assert len(dcp.FileSystemReader(tmp_path).read_metadata().tensors["w"].chunks) == 4
        for planner in (None, Elsewhere()):
            found = {"w": oneflow.zeros(4, 3)}
            dcp.load(found, checkpoint_id=tmp_path, planner=planner)
            assert found["w"].tolist() == w.tolist()


def test_async_saves_ask_the_planner_too(tmp_path: Path) -> None:
    w = oneflow.ones(2)
    future = dcp.async_save({"w": w}, checkpoint_id=tmp_path, planner=Halves())
    w.zero_()
    future.result()
    found = {"foo_w": w}
    with pytest.raises(RuntimeError, match="Missing key in checkpoint state_dict: foo_w"):
        dcp.load(found, checkpoint_id=tmp_path, planner=type("Mine", (dcp.DefaultLoadPlanner,), {})())
    dcp.load({"w": w}, checkpoint_id=tmp_path)
    assert w.tolist() == [1.0, 1.0]


def test_plans_go_from_rank_to_rank(tmp_path: Path) -> None:
    seen: list[Any] = []

    class Seen(dcp.DefaultLoadPlanner):
        def create_global_plan(self, global_plan: Any) -> Any:
            seen.append((dist.get_rank(), [{item.type for item in plan.items} for plan in global_plan]))
            return super().create_global_plan(global_plan)

    def rank() -> None:
        dcp.save(state(), checkpoint_id=tmp_path)
        found = empty()
        dcp.load(found, checkpoint_id=tmp_path, planner=Seen())
        check(found)

    run_ranks(2, rank)
    assert seen == [(0, [{LoadItemType.TENSOR, LoadItemType.BYTE_IO}] * 2)]


class Broken(dcp.DefaultSavePlanner):
    def create_local_plan(self) -> Any:
        if dist.get_rank() == 1:
            raise KeyError("no plan")
        return super().create_local_plan()


class BrokenAtLast(dcp.DefaultSavePlanner):
    def create_global_plan(self, all_plans: Any) -> Any:
        return all_plans[:1], None


class Wrong(dcp.DefaultSavePlanner):
    def resolve_data(self, write_item: Any) -> Any:
        return oneflow.zeros(9)


def test_all_ranks_hear_of_a_planner_that_fails(tmp_path: Path) -> None:
    def rank() -> list[str]:
        texts = []
        for planner in (Broken(), BrokenAtLast()):
            with pytest.raises((KeyError, ValueError, dcp.CheckpointException)) as error:
                dcp.save(state(), checkpoint_id=tmp_path, planner=planner)
            texts.append(str(error.value))
        return texts

    first, second = run_ranks(2, rank)
    assert "rank 1: KeyError: 'no plan'" in first[0] and "no plan" in second[0]
    assert "a plan for each of 2 ranks" in first[1] and "a plan for each of 2 ranks" in second[1]
    for planner, kind, words in (
        (Wrong(), ValueError, r"gave \(9,\) for a part of sizes \(2,\) of 'w'"),
        (object(), TypeError, "must be a SavePlanner, got object"),
        (dcp.SavePlanner(), NotImplementedError, "SavePlanner.set_up_planner"),
    ):
        with pytest.raises(kind, match=words):
            dcp.save({"w": oneflow.ones(2)}, checkpoint_id=tmp_path, planner=planner)
    dcp.save({"w": oneflow.ones(2)}, checkpoint_id=tmp_path)
    for planner, kind, words in (
        (object(), TypeError, "must be a LoadPlanner, got object"),
        (dcp.LoadPlanner(), NotImplementedError, "LoadPlanner.set_up_planner"),
    ):
        with pytest.raises(kind, match=words):
            dcp.load({"w": oneflow.ones(2)}, checkpoint_id=tmp_path, planner=planner)
