"""Checkpoints behind URLs: the same promises as in local folders, through fsspec's file systems."""

from __future__ import annotations

import importlib
import threading
from pathlib import Path
from typing import Any

import oneflow as torch
import oneflow.distributed.checkpoint as dcp
import pytest
from oneflow import distributed as dist
from oneflow.distributed.checkpoint import _load
from oneflow.distributed.checkpoint._folders import folder_at
from oneflow.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter
from oneflow.distributed.device_mesh import init_device_mesh
from oneflow.distributed.tensor import Replicate, Shard, distribute_tensor
from oneflow.testing import run_ranks

fsspec: Any = importlib.import_module("fsspec")
importlib.import_module("fsspec.implementations.memory")
TORCH_SAVE = dcp.filesystem.SerializationFormat.TORCH_SAVE


@pytest.fixture(params=["memory", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    where = f"memory://{tmp_path.name}/run" if request.param == "memory" else f"file://{tmp_path}/run"
    yield where
    fsspec.filesystem("memory").store.clear()


def names(url: str) -> list[str]:
    files, root = fsspec.core.url_to_fs(url)
    return sorted(path.rpartition("/")[2] for path in files.ls(root, detail=False))


@pytest.mark.parametrize("kind", [dcp.filesystem.SerializationFormat.SAFETENSORS, TORCH_SAVE], ids=lambda k: k.name)
def test_any_layout_is_loaded_from_any_other(url: str, kind: Any) -> None:
    whole = torch.arange(21.0).view(7, 3)

    def save() -> None:
        spread = distribute_tensor(whole, init_device_mesh("cpu", (3,)), [Shard(0)])
        state = {"w": spread, "step": 7, "n": {"b": torch.ones(2, dtype=torch.bfloat16)}}
        dcp.save(state, storage_writer=dcp.FileSystemWriter(url, serialization_format=kind))

    def load(n_ranks: int, placements: list[Any]) -> None:
        spread = distribute_tensor(torch.zeros(7, 3), init_device_mesh("cpu", (n_ranks,)), placements)
        state = {"w": spread, "step": 0, "n": {"b": torch.zeros(2, dtype=torch.bfloat16)}}
        dcp.load(state, checkpoint_id=url)
        assert torch.equal(state["w"].full_tensor(), whole)
        assert state["step"] == 7 and state["n"]["b"].tolist() == [1.0, 1.0]

    run_ranks(3, save)
    # All threads that read a file in memory move its one position.
    n_ranks = 1 if url.startswith("memory") else 2
    for placements in ([Shard(1)], [Replicate()]):
        run_ranks(n_ranks, load, n_ranks, placements)
    assert "w" in dcp.FileSystemReader(url).read_metadata().tensors


def test_a_new_checkpoint_replaces_the_old_one_and_its_files(url: str) -> None:
    for step in (1, 2):
        dcp.save({"w": torch.full((3,), float(step)), "step": step}, checkpoint_id=url)
    assert len(names(url)) == 3
    found = {"w": torch.zeros(3), "step": 0}
    dcp.load(found, storage_reader=FsspecReader(url))
    assert found["w"].tolist() == [2.0] * 3 and found["step"] == 2
    with pytest.raises(dcp.CheckpointException, match="overwrite is false"):
        dcp.save({"step": 3}, storage_writer=FsspecWriter(url, overwrite=False))
    future = dcp.async_save({"w": torch.zeros(3), "step": 3}, checkpoint_id=url)
    future.result()
    dcp.load(found, checkpoint_id=url)
    assert found["step"] == 3 and len(names(url)) == 3


def test_a_failed_upload_leaves_the_old_checkpoint(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dcp.save({"w": torch.ones(4)}, checkpoint_id=url)
    kind = type(fsspec.core.url_to_fs(url)[0])
    put = kind.put_file

    def full(self: Any, local: str, remote: str, **options: Any) -> None:
        if "part_00001" in remote:
            raise OSError(28, "No space left on device")
        put(self, local, remote, **options)

    monkeypatch.setattr(kind, "put_file", full)

    def rank() -> None:
        spread = distribute_tensor(torch.zeros(4), init_device_mesh("cpu", (2,)), [Shard(0)])
        with pytest.raises(dcp.CheckpointException, match=r"rank 1: OSError: .*No space left") as error:
            dcp.save({"w": spread}, checkpoint_id=url)
        assert url in str(error.value)

    run_ranks(2, rank)
    found = {"w": torch.zeros(4)}
    dcp.load(found, checkpoint_id=url)
    assert found["w"].tolist() == [1.0] * 4 and len(names(url)) == 2


@pytest.mark.parametrize("n_ranks", [1, 2])
@pytest.mark.parametrize("is_remote", [True, False])
def test_files_of_two_saves_are_never_read_as_one(
    n_ranks: int, is_remote: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hugging Face's folders have no manifest: a save that fails between its files leaves some of the one before."""
    place = f"file://{tmp_path}" if is_remote else str(tmp_path)
    numbers = {"a": 1, "b": 2}

    def save(value: float) -> None:
        state: dict[str, Any] = {name: torch.full((4,), value) for name in numbers}
        if n_ranks > 1:
            mesh = init_device_mesh("cpu", (n_ranks,))
            state = {name: distribute_tensor(whole, mesh, [Shard(0)]) for name, whole in state.items()}
        writer = dcp.HuggingFaceStorageWriter(place, fqn_to_index_mapping=numbers, save_distributed=n_ranks > 1)
        dcp.save(state, storage_writer=writer)

    def load() -> list[float]:
        found = {name: torch.zeros(4) for name in numbers}
        dcp.load(found, storage_reader=dcp.HuggingFaceStorageReader(place), no_dist=True)
        return [value for tensor in found.values() for value in tensor.tolist()]

    publish, lock = type(folder_at(place)).publish, threading.Lock()
    outcomes = set()
    for n_good in range(2 * n_ranks):
        run_ranks(n_ranks, save, 1.0)
        left = n_good

        def some(self: Any, name: str) -> None:
            nonlocal left
            with lock:
                left -= 1
                if left < 0:
                    raise OSError("no space")
            publish(self, name)

        with monkeypatch.context() as patched:
            patched.setattr(type(folder_at(place)), "publish", some)
            with pytest.raises(dcp.CheckpointException, match="no space"):
                run_ranks(n_ranks, save, 2.0)
        try:
            assert load() == [1.0] * 8
            outcomes.add("old")
        except dcp.CheckpointException as error:
            assert "holds files of 2 saves" in str(error) and n_good
            outcomes.add("said")
        run_ranks(n_ranks, save, 3.0)
        assert load() == [3.0] * 8
    assert outcomes == {"old", "said"}


def test_a_rank_downloads_only_the_files_that_it_needs(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def save() -> None:
        dcp.save(
            {"w": distribute_tensor(torch.arange(4.0), init_device_mesh("cpu", (2,)), [Shard(0)])}, checkpoint_id=url
        )

    run_ranks(2, save)
    kind = type(fsspec.core.url_to_fs(url)[0])
    get, fetched = kind.get_file, []

    def counted(self: Any, remote: str, local: str, **options: Any) -> None:
        fetched.append((dist.get_rank(), remote.rpartition("/")[2][:10]))
        get(self, remote, local, **options)

    monkeypatch.setattr(kind, "get_file", counted)

    def load() -> None:
        spread = distribute_tensor(torch.zeros(4), init_device_mesh("cpu", (2,)), [Shard(0)])
        dcp.load({"w": spread}, checkpoint_id=url)
        assert spread.full_tensor().tolist() == [0.0, 1.0, 2.0, 3.0]

    run_ranks(2, load)
    assert sorted(fetched) == [(0, "part_00000"), (1, "part_00001")]


def test_what_is_wrong_is_named_by_its_url(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files, root = fsspec.core.url_to_fs(url)
    with pytest.raises(dcp.CheckpointException, match=f"{url} holds no checkpoint"):
        dcp.load({"w": torch.zeros(2)}, checkpoint_id=url)
    dcp.save({"w": torch.ones(2)}, checkpoint_id=url)
    part = next(name for name in names(url) if name.startswith("part"))
    files.pipe_file(f"{root}/{part}", b"abc")
    with pytest.raises(dcp.CheckpointException, match=f"{url}/{part} has 3 bytes"):
        dcp.load({"w": torch.zeros(2)}, checkpoint_id=url)
    files.rm_file(f"{root}/{part}")
    with pytest.raises(dcp.CheckpointException, match=f"{url} lacks its file {part}"):
        dcp.load({"w": torch.zeros(2)}, checkpoint_id=url)
    with pytest.raises(ValueError, match="nosuch"):
        dcp.save({"w": torch.ones(2)}, checkpoint_id="nosuch://bucket/run")

    def missing(name: str) -> Any:
        raise ImportError(name)

    from oneflow.distributed.checkpoint import _folders

    monkeypatch.setattr(_folders.importlib, "import_module", missing)
    with pytest.raises(ImportError, match="remote checkpoints need the package fsspec"):
        dcp.load({"w": torch.zeros(2)}, checkpoint_id=url)


class Kept(fsspec.implementations.memory.MemoryFileSystem):  # type: ignore[misc]
    """Keeps listings, and answers from them until it is told not to, as file systems of object stores do."""

    protocol = "kept"
    cachable = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kept: set[str] | None = None

    def exists(self, path: str, **options: Any) -> bool:
        if self.kept is None:
            self.kept = set(self.store)
        return self._strip_protocol(path) in self.kept

    def invalidate_cache(self, path: str | None = None) -> None:
        self.kept = None


@pytest.mark.parametrize("kind", [dcp.filesystem.SerializationFormat.SAFETENSORS, TORCH_SAVE], ids=lambda k: k.name)
def test_what_others_have_written_is_seen_where_listings_are_kept(kind: Any, tmp_path: Path) -> None:
    fsspec.register_implementation("kept", Kept, clobber=True)
    url = f"kept://{tmp_path.name}/run"
    reader = dcp.FileSystemReader(url)
    folder, other = (
        reader.folder(),
        TORCH_SAVE if kind is not TORCH_SAVE else dcp.filesystem.SerializationFormat.SAFETENSORS,
    )
    writer = folder_at(url)
    assert not folder.exists(".metadata") and not writer.exists(".metadata.json")
    dcp.save({"step": 1}, storage_writer=dcp.FileSystemWriter(url, serialization_format=kind))
    assert _load.read_manifest(folder).objects.keys() == {"step"}
    # One that is about to be replaced is seen by its writer, too.
    dcp.save({"step": 2}, storage_writer=dcp.FileSystemWriter(url, serialization_format=other))
    found = {"step": 0}
    dcp.load(found, checkpoint_id=url)
    assert found == {"step": 2} and writer.exists(".metadata") == (other is TORCH_SAVE)
    fsspec.filesystem("memory").store.clear()
