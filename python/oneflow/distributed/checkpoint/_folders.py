"""Where the files of a checkpoint lie: a folder that all ranks see, or a remote one that fsspec reaches.

Everything else of this package asks a :class:`Folder` and does not know which it is. Files are written to a local path
first; a remote folder then uploads them, and downloads what is read.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from oneflow.distributed.checkpoint.api import CheckpointException

__all__ = ["Folder", "RemoteFolder", "folder_at", "is_url"]


class Folder:
    """A folder of the file system.

    Args:
        path: it need not exist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    def at(self, name: str) -> str:
        """A file of it, for people to read."""
        return str(self.path / name)

    def exists(self, name: str) -> bool:
        """Whether it has this file."""
        return (self.path / name).exists()

    def size(self, name: str) -> int:
        """Bytes of a file. Raises FileNotFoundError."""
        return os.stat(self.path / name).st_size

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a file. Raises FileNotFoundError, or ValueError where there are more than ``limit``."""
        with open(self.path / name, "rb") as file:
            if os.fstat(file.fileno()).st_size > limit:
                raise ValueError(f"it is larger than {limit} bytes")
            return file.read()

    def local(self, name: str) -> Path:
        """A local file with the content of this one."""
        return self.path / name

    def make(self) -> None:
        """Make the folder if it is missing."""
        self.path.mkdir(parents=True, exist_ok=True)

    def draft(self, name: str) -> Path:
        """Where to write a file that :meth:`settle` then makes part of the folder."""
        return self.path / name

    def scratch(self, name: str) -> Path:
        """Where to write a file that :meth:`publish` then puts in the place of one of this name."""
        return self.path / f".{name}.tmp"

    def settle_scratch(self, name: str) -> None:
        """Wait until the disk has what was written there."""
        with open(self.scratch(name), "rb") as file:
            os.fsync(file.fileno())

    def publish(self, name: str) -> None:
        """Make the scratch of this name part of the folder, whole."""
        os.replace(self.scratch(name), self.path / name)

    def settle(self, name: str, sync: bool) -> int:
        """Make what was written part of the folder; with ``sync`` wait for the disk. Returns the size in bytes."""
        with open(self.path / name, "rb") as file:
            if sync:
                os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size

    def settle_names(self) -> None:
        """Wait until the disk has the names of the files as well."""
        number = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)

    def replace(self, name: str, data: bytes, sync: bool = True) -> None:
        """Write a file so that its name stands for all of it or for nothing, also after a power cut."""
        temporary = self.path / f".{name}.tmp"
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(temporary, self.path / name)
        if sync:
            self.settle_names()

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        (self.path / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        """The names of its files."""
        return [path.name for path in self.path.iterdir()]


class RemoteFolder(Folder):
    """A folder behind a URL, by the fsspec package: "s3://bucket/run", "gs://...", "memory://...".

    A stored object stands for all of its bytes or is not there, so the manifest, which is written last, decides what
    checkpoint the folder holds, as in a local one.

    Args:
        url: of the folder.
        **options: for the file system, such as keys.

    Raises:
        ImportError: fsspec, or its package for this protocol, is not installed.
    """

    def __init__(self, url: str, **options: Any) -> None:
        try:
            fsspec: Any = importlib.import_module("fsspec")
        except ImportError:
            raise ImportError(f"{url}: remote checkpoints need the package fsspec (pip install fsspec)") from None
        self.url = url.rstrip("/")
        self._files, self._root = fsspec.core.url_to_fs(self.url, **options)
        super().__init__(tempfile.mkdtemp(prefix="oneflow-checkpoint-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def __str__(self) -> str:
        return self.url

    def at(self, name: str) -> str:
        return f"{self.url}/{name}"

    def _key(self, name: str) -> str:
        return f"{self._root}/{name}"

    def exists(self, name: str) -> bool:
        # Another process may have written since a listing was kept.
        self._files.invalidate_cache()
        return bool(self._files.exists(self._key(name)))

    def size(self, name: str) -> int:
        return int(self._files.info(self._key(name))["size"])

    def read(self, name: str, limit: int) -> bytes:
        # Another process may have written since a listing was kept.
        self._files.invalidate_cache()
        if self.size(name) > limit:
            raise ValueError(f"it is larger than {limit} bytes")
        return bytes(self._files.cat_file(self._key(name)))

    def local(self, name: str) -> Path:
        path = self.path / name
        if not path.exists():
            scratch = self.path / f".{name}.part"
            self._files.get_file(self._key(name), str(scratch))
            found, said = scratch.stat().st_size, self.size(name)
            if found != said:
                raise CheckpointException(f"{self.at(name)} has {said} bytes, and {found} were read")
            os.replace(scratch, path)
        return path

    def make(self) -> None:
        self._files.makedirs(self._root, exist_ok=True)

    def settle_scratch(self, name: str) -> None:
        # It is uploaded from there.
        pass

    def publish(self, name: str) -> None:
        os.replace(self.scratch(name), self.path / name)
        self.settle(name, False)

    def settle(self, name: str, sync: bool) -> int:
        path = self.path / name
        self._files.put_file(str(path), self._key(name))
        n_bytes, stored = path.stat().st_size, self.size(name)
        path.unlink()
        if stored != n_bytes:
            raise CheckpointException(f"{self.at(name)} has {stored} bytes after {n_bytes} were written")
        return n_bytes

    def settle_names(self) -> None:
        # Names of stored objects need no waiting.
        pass

    def replace(self, name: str, data: bytes, sync: bool = True) -> None:
        self._files.pipe_file(self._key(name), data)

    def remove(self, name: str) -> None:
        if self.exists(name):
            self._files.rm_file(self._key(name))

    def names(self) -> list[str]:
        self._files.invalidate_cache()
        return [str(path).rstrip("/").rpartition("/")[2] for path in self._files.ls(self._root, detail=False)]


def is_url(path: str | os.PathLike[str]) -> bool:
    """Whether this names a remote folder: a text with a protocol."""
    return isinstance(path, str) and "://" in path


def folder_at(path: str | os.PathLike[str], **options: Any) -> Folder:
    """The folder of a path or URL; ``options`` are for the file system of a URL."""
    if isinstance(path, str) and is_url(path):
        return RemoteFolder(path, **options)
    return Folder(path)
