"""Files of asynchronous checkpoints: the same bytes as files that are written at once, on any file system."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import oneflow as torch
import oneflow.distributed.checkpoint as dcp
import pytest
from oneflow.distributed.checkpoint import _staging
from oneflow.distributed.checkpoint._staging import StagedFile
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
