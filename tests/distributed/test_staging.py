"""Files of asynchronous checkpoints: the same bytes as files that are written at once, on any file system."""

from __future__ import annotations

import errno
import os
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import oneflow as torch
import oneflow.distributed.checkpoint as dcp
import pytest
from oneflow.distributed.checkpoint import _staging, staging
from oneflow.distributed.checkpoint._staging import StagedFile
from oneflow.distributed.checkpoint.state_dict_saver import AsyncSaveResponse
from oneflow.models.safetensors import load_file, save_file


def tensors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    odd = torch.randn(37, 11, generator=generator)
    return {
        "odd": odd,
        "transposed": odd.t(),
        "strided": odd[::2, 1::3],
        "double": odd.double(),
        "half": odd.bfloat16(),
        "bytes": (odd * 9).to(torch.uint8)[:3],
        "flags": odd > 0,
        "number": torch.tensor(2.5),
        "none": torch.empty(0, 4),
        "parameter": torch.nn.Parameter(odd),
    }


def refuses(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are written past the cache fail as those of some file systems."""
    opened, written = os.open, os.pwrite
    direct: set[int] = set()

    def opens(path: Any, flags: int, *more: Any) -> int:
        if flags & os.O_DIRECT and how == "open":
            raise OSError(errno.EINVAL, "no direct files")
        file = opened(path, flags, *more)
        (direct.add if flags & os.O_DIRECT else direct.discard)(file)
        return file

    def writes(file: int, data: Any, at: int) -> int:
        if file in direct and how == "write":
            raise OSError(errno.EINVAL, "another alignment")
        if file in direct and how == "odd":
            return written(file, data[:512], at)
        return written(file, data, at)

    monkeypatch.setattr(os, "open", opens)
    monkeypatch.setattr(os, "pwrite", writes)


@pytest.mark.parametrize("how", ["all", "open", "write", "odd"])
@pytest.mark.parametrize("piece", [4096, 1 << 20])
def test_a_staged_file_has_the_bytes_of_a_file(
    how: str, piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_file(tensors(), tmp_path / "right")
    monkeypatch.setattr(_staging, "_PIECE", piece)
    given = tensors()
    staged = StagedFile(given)
    for t in given.values():
        t.data.zero_()
    refuses(how, monkeypatch)
    staged.write(tmp_path / "staged")
    assert (tmp_path / "staged").read_bytes() == (tmp_path / "right").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["right", "staged"]


def test_a_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        StagedFile(tensors()).write(tmp_path / "staged")
    assert not list(tmp_path.iterdir())


def test_an_asynchronous_save_writes_that_file_and_leaves_the_caller_its_priority(tmp_path: Path) -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    dcp.async_save({"model": tensors(), "step": 3}, checkpoint_id=tmp_path, no_dist=True).result()
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
    (part,) = tmp_path.glob("part_*.safetensors")
    found = load_file(part)
    assert all(torch.equal(found[f"model.{name}"], t) for name, t in tensors().items() if t.numel())
    again = {"model": {name: torch.zeros_like(t) for name, t in tensors().items()}, "step": 0}
    dcp.load(again, checkpoint_id=tmp_path, no_dist=True)
    assert again["step"] == 3
    assert torch.equal(again["model"]["strided"], tensors()["strided"])


@pytest.mark.parametrize("helps", [True, False])
def test_tensors_are_copied_beside_training_until_somebody_waits(
    helps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_staging, "_PIECE", 64)
    response = dcp.async_save(
        {"model": (given := tensors()), "list": (plain := [1, 2])},
        checkpoint_id=tmp_path,
        no_dist=True,
        async_stager=staging.DefaultStager(),
    )
    assert isinstance(response, AsyncSaveResponse)
    plain.append(3)
    if helps:
        response.staging_completion.result(timeout=60)
    else:
        response.upload_completion.result(timeout=60)
    assert response.staging_completion.done()
    for t in given.values():
        t.data.zero_()
    response.upload_completion.result(timeout=60)
    (part,) = tmp_path.glob("part_*.safetensors")
    found = load_file(part)
    assert all(torch.equal(found[f"model.{name}"], t) for name, t in tensors().items() if t.numel())
    again: dict[str, Any] = {"model": tensors(), "list": [0, 0]}
    dcp.load(again, checkpoint_id=tmp_path, no_dist=True)
    assert again["list"] == [1, 2]


def test_who_waits_copies_what_nobody_has_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_staging, "_PIECE", 64)
    staged = StagedFile(given := tensors(), later=True)
    future = _staging.StagingFuture(staged.copies)
    assert not future.done()
    future.result()
    assert future.done()
    for t in given.values():
        t.data.zero_()
    save_file(tensors(), tmp_path / "right")
    staged.write(tmp_path / "staged")
    assert (tmp_path / "staged").read_bytes() == (tmp_path / "right").read_bytes()


def test_a_copy_that_fails_is_known_to_all_who_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = (torch.zeros(8, dtype=torch.uint8), torch.zeros(3))
    monkeypatch.setattr(_staging, "_pieces", lambda *_: iter([bad, bad]))
    staged = StagedFile(tensors(), later=True)
    future = _staging.StagingFuture(staged.copies)
    told: list[BaseException | None] = []
    future.add_done_callback(lambda of: told.append(of.exception()))
    for call in (staged.copies.finish, future.result, lambda: staged.write(tmp_path / "staged")):
        with pytest.raises(RuntimeError, match="shape"):
            call()
    assert len(told) == 1 and told[0] is future.exception() is not None
    assert not list(tmp_path.iterdir())


def test_who_waits_for_a_copy_of_another_thread_may_give_up() -> None:
    copies = StagedFile({"t": torch.ones(4)}, later=True).copies
    future = _staging.StagingFuture(copies)
    copies._pieces, taken = deque(), copies._pieces
    for wait in (copies.finish, future.result, future.exception):
        with pytest.raises(TimeoutError):
            wait(timeout=0.01)
    assert not future.done()
    copies._pieces = taken
    copies.finish()
    assert copies.are_done() and not copies._pieces and future.done() and future.exception() is None


def test_a_stager_of_ones_own_is_asked(tmp_path: Path) -> None:
    class Doubles(staging.AsyncStager):
        synchronized = 0

        def __init__(self, later: bool) -> None:
            self.later = later

        def stage(self, state_dict: dict[str, Any]) -> Any:
            copied = {name: t * 2 for name, t in state_dict.items()}
            future: Future[Any] = Future()
            future.set_result(copied)
            return future if self.later else copied

        def synchronize_staging(self) -> None:
            self.synchronized += 1

    for later in (False, True):
        stager, w = Doubles(later), torch.ones(3)
        done: Any = dcp.async_save({"w": w}, checkpoint_id=tmp_path, no_dist=True, async_stager=stager)
        (done.upload_completion if later else done).result(timeout=60)
        dcp.load({"w": w}, checkpoint_id=tmp_path, no_dist=True)
        assert w.tolist() == [2, 2, 2]
        assert stager.synchronized == int(not later)
    with pytest.raises(TypeError, match="must be an AsyncStager, got int"):
        dcp.async_save({"w": w}, checkpoint_id=tmp_path, no_dist=True, async_stager=3)
