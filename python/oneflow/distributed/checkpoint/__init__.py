"""Checkpoints of several ranks in one folder: PyTorch's ``torch.distributed.checkpoint``.

Tensors are written by the ranks that hold them and read by those that need them, whatever the layouts and the numbers
of ranks. Files are safetensors and a manifest in JSON; PyTorch's own files of this kind are another format.
"""

from __future__ import annotations

from oneflow.distributed.checkpoint.api import CheckpointException
from oneflow.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from oneflow.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from oneflow.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from oneflow.distributed.checkpoint.planner import LoadPlanner, SavePlanner
from oneflow.distributed.checkpoint.state_dict_loader import load, load_state_dict
from oneflow.distributed.checkpoint.state_dict_saver import async_save, save, save_state_dict
from oneflow.distributed.checkpoint.storage import StorageReader, StorageWriter

__all__ = [
    "CheckpointException",
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "HuggingFaceStorageReader",
    "HuggingFaceStorageWriter",
    "LoadPlanner",
    "SavePlanner",
    "StorageReader",
    "StorageWriter",
    "async_save",
    "load",
    "load_state_dict",
    "save",
    "save_state_dict",
]
