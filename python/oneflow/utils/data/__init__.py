"""Data sets, samplers and the loader."""

from __future__ import annotations

from typing import Any

from oneflow._base.lazy import LazyNames
from oneflow.utils.data import _utils
from oneflow.utils.data._workers import WorkerInfo, get_worker_info
from oneflow.utils.data.collate import default_collate, default_convert
from oneflow.utils.data.dataloader import DataLoader
from oneflow.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from oneflow.utils.data.distributed import DistributedSampler
from oneflow.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DFIterDataPipe",
    "DataChunk",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterDataPipe",
    "IterableDataset",
    "MapDataPipe",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "_utils",
    "default_collate",
    "default_convert",
    "functional_datapipe",
    "get_worker_info",
    "random_split",
]

_lazy = LazyNames(
    "oneflow.utils.data",
    ("datapipes", "graph", "graph_settings"),
    {
        "utils.data.datapipes.datapipe": (
            "DFIterDataPipe",
            "DataChunk",
            "IterDataPipe",
            "MapDataPipe",
            "functional_datapipe",
        )
    },
)


def __getattr__(name: str) -> Any:
    """Return pipes, which are imported on first use."""
    return _lazy.find(name)
