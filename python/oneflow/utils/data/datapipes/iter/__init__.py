"""Pipes of streams: ``torch.utils.data.datapipes.iter``."""

from __future__ import annotations

from oneflow.utils.data.datapipes.iter.callable import CollatorIterDataPipe as Collator
from oneflow.utils.data.datapipes.iter.callable import MapperIterDataPipe as Mapper
from oneflow.utils.data.datapipes.iter.combinatorics import SamplerIterDataPipe as Sampler
from oneflow.utils.data.datapipes.iter.combinatorics import ShufflerIterDataPipe as Shuffler
from oneflow.utils.data.datapipes.iter.combining import ConcaterIterDataPipe as Concater
from oneflow.utils.data.datapipes.iter.combining import MultiplexerIterDataPipe as Multiplexer
from oneflow.utils.data.datapipes.iter.combining import ZipperIterDataPipe as Zipper
from oneflow.utils.data.datapipes.iter.files import FileListerIterDataPipe as FileLister
from oneflow.utils.data.datapipes.iter.files import FileOpenerIterDataPipe as FileOpener
from oneflow.utils.data.datapipes.iter.files import StreamReaderIterDataPipe as StreamReader
from oneflow.utils.data.datapipes.iter.grouping import BatcherIterDataPipe as Batcher
from oneflow.utils.data.datapipes.iter.grouping import GrouperIterDataPipe as Grouper
from oneflow.utils.data.datapipes.iter.grouping import UnBatcherIterDataPipe as UnBatcher
from oneflow.utils.data.datapipes.iter.selecting import FilterIterDataPipe as Filter
from oneflow.utils.data.datapipes.iter.sharding import ShardingFilterIterDataPipe as ShardingFilter
from oneflow.utils.data.datapipes.iter.splitting import DemultiplexerIterDataPipe as Demultiplexer
from oneflow.utils.data.datapipes.iter.splitting import ForkerIterDataPipe as Forker
from oneflow.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe as IterableWrapper

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Demultiplexer",
    "FileLister",
    "FileOpener",
    "Filter",
    "Forker",
    "Grouper",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "Sampler",
    "ShardingFilter",
    "Shuffler",
    "StreamReader",
    "UnBatcher",
    "Zipper",
]
