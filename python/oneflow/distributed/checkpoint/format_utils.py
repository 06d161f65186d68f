"""Checkpoints of several ranks from and to one file: PyTorch's ``torch.distributed.checkpoint.format_utils``."""

from __future__ import annotations

import os
from typing import Any

import oneflow
from oneflow.distributed.checkpoint._folders import folder_at, is_url
from oneflow.distributed.checkpoint._load import Reader, read_manifest
from oneflow.distributed.checkpoint._traverse import set_element
from oneflow.distributed.checkpoint.api import CheckpointException
from oneflow.distributed.checkpoint.filesystem import FileSystemWriter, SerializationFormat
from oneflow.distributed.checkpoint.state_dict_saver import save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]) -> None:
    """Write all that a checkpoint of several ranks holds to one file, as the nest of dictionaries that was saved.

    Called by one process, which holds it all for the time. Keys of dictionaries come back as texts.

    Args:
        dcp_checkpoint_dir: folder or URL of a checkpoint of this package or of PyTorch.
        torch_save_path: the file to write, for ``oneflow.load`` or ``torch.load``.

    Raises:
        CheckpointException: the folder holds no checkpoint, a damaged one, or one that does not say where its entries
            stood: earlier versions of this package did not.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> from oneflow.distributed.checkpoint.format_utils import dcp_to_torch_save
        >>> _ = dcp.save({"model": {"w": oneflow.ones(2)}, "step": 3}, checkpoint_id="run")
        >>> dcp_to_torch_save("run", "run.pt")
        >>> oneflow.load("run.pt")
        {'model': {'w': tensor([1., 1.])}, 'step': 3}
    """
    folder = folder_at(dcp_checkpoint_dir)
    manifest = read_manifest(folder)
    reader = Reader(folder, manifest)
    whole: dict[str, Any] = {}
    for name in (*manifest.tensors, *manifest.objects):
        if name not in manifest.paths:
            raise CheckpointException(
                f"dcp_to_torch_save: the checkpoint in {folder} does not say where its entry {name!r} stood; load it "
                "into a state dictionary, and save that"
            )
    # In the order in which they were saved.
    for name, path in manifest.paths.items():
        if name not in manifest.tensors and name not in manifest.objects:
            continue
        value = reader.whole(name) if name in manifest.tensors else reader.object(name)
        try:
            set_element(whole, path, value)
        except (TypeError, KeyError, IndexError, AttributeError, RuntimeError):
            raise CheckpointException(f"{folder} is damaged: its entry {name!r} has no place at {path}") from None
    oneflow.save(whole, torch_save_path)


def torch_save_to_dcp(torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]) -> None:
    """Write what one file holds as a checkpoint of several ranks, in PyTorch's files. Called by one process.

    Args:
        torch_save_path: a file of ``oneflow.save`` or ``torch.save``, which is read with ``weights_only=True``.
        dcp_checkpoint_dir: folder or URL of the checkpoint.

    Raises:
        TypeError: the file holds no dictionary.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> from oneflow.distributed.checkpoint.format_utils import torch_save_to_dcp
        >>> oneflow.save({"w": oneflow.ones(2)}, "run.pt")
        >>> torch_save_to_dcp("run.pt", "run")
        >>> state = {"w": oneflow.zeros(2)}
        >>> dcp.load(state, checkpoint_id="run")
        >>> state["w"]
        tensor([1., 1.])
    """
    found = oneflow.load(torch_save_path)
    if not isinstance(found, dict):
        raise TypeError(f"torch_save_to_dcp: {torch_save_path} holds a {type(found).__name__}, expected a dictionary")
    where = dcp_checkpoint_dir if is_url(dcp_checkpoint_dir) else os.fspath(dcp_checkpoint_dir)
    writer = FileSystemWriter(where, serialization_format=SerializationFormat.TORCH_SAVE)
    save(found, storage_writer=writer, no_dist=True)
