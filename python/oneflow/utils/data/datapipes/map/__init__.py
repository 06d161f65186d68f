"""Pipes of tables: ``torch.utils.data.datapipes.map``."""

from __future__ import annotations

from oneflow.utils.data.datapipes.map.callable import MapperMapDataPipe as Mapper
from oneflow.utils.data.datapipes.map.combinatorics import ShufflerIterDataPipe as Shuffler
from oneflow.utils.data.datapipes.map.combining import ConcaterMapDataPipe as Concater
from oneflow.utils.data.datapipes.map.combining import ZipperMapDataPipe as Zipper
from oneflow.utils.data.datapipes.map.grouping import BatcherMapDataPipe as Batcher
from oneflow.utils.data.datapipes.map.utils import SequenceWrapperMapDataPipe as SequenceWrapper

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]
