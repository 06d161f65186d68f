"""Folders of safetensors files as Hugging Face's libraries read and write them, for :func:`save` and :func:`load`."""

from __future__ import annotations

import os
from collections.abc import Mapping

from oneflow.distributed.checkpoint import _hf, _manifest
from oneflow.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes tensors by their names, with nothing of this package in the files.

    One process writes ``model-00001-of-0000N.safetensors`` and an index, ``model.safetensors.index.json``. Several
    ranks write their parts to files of their own, which :class:`HuggingFaceStorageReader` joins, and perhaps the whole.

    Args:
        path: the folder, or a URL that the fsspec package knows.
        fqn_to_index_mapping: the number of the file of each tensor, from 1; all are in one by default.
        thread_count: accepted; a rank writes its files one after the other.
        save_distributed: each rank writes its parts. Otherwise this process writes whole tensors, alone or with
            ``no_dist``.
        enable_consolidation: the parts go to the folder ``sharded``, and the first rank writes whole tensors beside it.
        thread_count_consolidation: accepted.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> from oneflow.models.safetensors import load_file
        >>> _ = dcp.save({"w": oneflow.ones(2)}, storage_writer=dcp.HuggingFaceStorageWriter("model"))
        >>> load_file("model/model-00001-of-00001.safetensors")
        {'w': tensor([1., 1.])}
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fqn_to_index_mapping: Mapping[str, int] | None = None,
        thread_count: int = 1,
        save_distributed: bool = False,
        enable_consolidation: bool = False,
        thread_count_consolidation: int = 1,
    ) -> None:
        super().__init__(path)
        if enable_consolidation and not save_distributed:
            raise ValueError("HuggingFaceStorageWriter: enable_consolidation joins what save_distributed=True writes")
        self.fqn_to_index_mapping = fqn_to_index_mapping
        self.save_distributed, self.enable_consolidation = save_distributed, enable_consolidation


class HuggingFaceStorageReader(FileSystemReader):
    """Reads folders of safetensors files: whole models, with an index or without, and parts of several ranks.

    Args:
        path: the folder, or a URL that the fsspec package knows.
        thread_count: accepted; files are mapped, and a rank reads what it needs of them.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> from oneflow.models.safetensors import save_file
        >>> save_file({"w": oneflow.ones(2)}, "model.safetensors")
        >>> state = {"w": oneflow.zeros(2)}
        >>> dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader("."))
        >>> state["w"]
        tensor([1., 1.])
    """

    def __init__(self, path: str | os.PathLike[str], thread_count: int = 1) -> None:
        super().__init__(path)

    def read_metadata(self) -> _manifest.Manifest:
        """Return what the files hold.

        Raises:
            CheckpointException: there are none, or one is damaged.
        """
        return _hf.read(self.folder())
