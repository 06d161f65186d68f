"""PyTorch's names for checkpoints behind a URL, which the fsspec package reaches."""

from __future__ import annotations

import os
from typing import Any

from oneflow.distributed.checkpoint._folders import Folder, RemoteFolder
from oneflow.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter, SerializationFormat

__all__ = ["FsspecReader", "FsspecWriter"]


class FsspecWriter(FileSystemWriter):
    """:class:`FileSystemWriter` for a URL, with options for its file system.

    Args:
        path: the URL of the folder.
        single_file_per_rank, sync_files, thread_count, per_thread_copy_ahead: as there.
        overwrite, serialization_format: as there.
        **options: for the file system, such as keys.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> from oneflow.distributed.checkpoint._fsspec_filesystem import FsspecWriter
        >>> FsspecWriter("s3://bucket/run", anon=True).path
        's3://bucket/run'
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        overwrite: bool = True,
        serialization_format: SerializationFormat = SerializationFormat.SAFETENSORS,
        **options: Any,
    ) -> None:
        super().__init__(
            path,
            single_file_per_rank,
            sync_files,
            thread_count,
            per_thread_copy_ahead,
            overwrite=overwrite,
            serialization_format=serialization_format,
        )
        self.options = options

    def folder(self) -> Folder:
        return RemoteFolder(str(self.path), **self.options)


class FsspecReader(FileSystemReader):
    """:class:`FileSystemReader` for a URL, with options for its file system.

    Args:
        path: the URL of the folder.
        **options: for the file system, such as keys.

    Example::

        >>> from oneflow.distributed.checkpoint._fsspec_filesystem import FsspecReader
        >>> FsspecReader("s3://bucket/run", anon=True).path
        's3://bucket/run'
    """

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        super().__init__(path)
        self.options = options

    def folder(self) -> Folder:
        return RemoteFolder(str(self.path), **self.options)
