"""Where checkpoints are: folders, local or behind a URL."""

from __future__ import annotations

import enum
import os
from pathlib import Path

from oneflow.distributed.checkpoint import _manifest
from oneflow.distributed.checkpoint._folders import Folder, folder_at, is_url
from oneflow.distributed.checkpoint._load import read_manifest

__all__ = ["FileSystemReader", "FileSystemWriter", "SerializationFormat"]


class SerializationFormat(enum.Enum):
    """How :class:`FileSystemWriter` writes tensors.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> dcp.filesystem.SerializationFormat.TORCH_SAVE.value
        'torch_save'
    """

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


class FileSystemWriter:
    """Writes checkpoints to a folder that all ranks see.

    Args:
        path: the folder, or a URL that the fsspec package knows, as "s3://bucket/run"; it is made if it is missing.
        single_file_per_rank: true is how it is done.
        sync_files: wait until the disk has what was written; without it a power cut may lose the checkpoint.
        thread_count, per_thread_copy_ahead, cache_staged_state_dict: accepted; they change no result.
        overwrite: whether a checkpoint in the folder is replaced. It stays whole until the new one is.
        serialization_format: ``SAFETENSORS``, this package's format, is the default. ``TORCH_SAVE`` is PyTorch's,
            ``.metadata`` and ``.distcp`` files, which its readers take.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> _ = dcp.save({"step": 1}, storage_writer=dcp.FileSystemWriter("checkpoint"))
        >>> theirs = dcp.filesystem.SerializationFormat.TORCH_SAVE
        >>> writer = dcp.FileSystemWriter("for_torch", serialization_format=theirs)
        >>> _ = dcp.save({"step": 1}, storage_writer=writer)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
        serialization_format: SerializationFormat = SerializationFormat.SAFETENSORS,
    ) -> None:
        self.serialization_format = SerializationFormat(serialization_format)
        if not single_file_per_rank:
            raise NotImplementedError("FileSystemWriter: each rank writes one file (single_file_per_rank)")
        self.path = _path(path)
        self.sync_files, self.overwrite = sync_files, overwrite

    def folder(self) -> Folder:
        """Where it writes."""
        return folder_at(self.path)


class FileSystemReader:
    """Reads checkpoints from a folder: those of this package, and PyTorch's (``.metadata`` and ``.distcp`` files).

    Args:
        path: the folder, or a URL that the fsspec package knows.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> _ = dcp.save({"step": 1}, checkpoint_id="checkpoint")
        >>> list(dcp.FileSystemReader("checkpoint").read_metadata().objects)
        ['step']
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _path(path)

    def folder(self) -> Folder:
        """Where it reads."""
        return folder_at(self.path)

    def read_metadata(self) -> _manifest.Manifest:
        """Return what the checkpoint holds: ``tensors`` with shapes and dtypes, and ``objects``, by name.

        Raises:
            CheckpointException: there is no checkpoint, or it is damaged.
        """
        return read_manifest(self.folder())


def _path(path: str | os.PathLike[str]) -> str | Path:
    return path if isinstance(path, str) and is_url(path) else Path(path)
