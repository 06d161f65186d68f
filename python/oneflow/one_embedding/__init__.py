"""Embeddings larger than memory: rows are created when they are first trained, and those in use stay in memory.

A table has no size: any integer is an id. Rows are stored in a folder, and in memory as the budget allows; the
optimizer's state is stored next to the weights and is updated in the same pass. ``docs/guides/recommenders.md`` shows a
whole program.

Missing features raise ``NotImplementedError``: rows in a GPU's memory, lookups within ``oneflow.compile``.
"""

from oneflow.one_embedding._ahead import Prefetcher
from oneflow.one_embedding._bags import EmbeddingBag
from oneflow.one_embedding._collections import (
    EmbeddingBagCollection,
    EmbeddingBagConfig,
    EmbeddingCollection,
    EmbeddingConfig,
)
from oneflow.one_embedding._jagged import JaggedTensor, KeyedJaggedTensor, KeyedTensor
from oneflow.one_embedding._modules import Embedding, MultiTableEmbedding, MultiTableMultiColumnEmbedding
from oneflow.one_embedding._optimizers import Optimizer, RowWiseAdagrad, SmartDecayAdam
from oneflow.one_embedding._options import (
    make_cached_host_mem_store_options,
    make_cached_ssd_store_options,
    make_column_options,
    make_constant_initializer,
    make_count_admission,
    make_device_mem_store_options,
    make_normal_initializer,
    make_probability_admission,
    make_table,
    make_table_options,
    make_trunc_normal_initializer,
    make_uniform_initializer,
)
from oneflow.one_embedding._tables import (
    PersistentTableReader,
    PersistentTableWriter,
    make_persistent_table_reader,
    make_persistent_table_writer,
)
from oneflow.optim import Ftrl

__all__ = [
    "Embedding",
    "EmbeddingBag",
    "EmbeddingBagCollection",
    "EmbeddingBagConfig",
    "EmbeddingCollection",
    "EmbeddingConfig",
    "Ftrl",
    "JaggedTensor",
    "KeyedJaggedTensor",
    "KeyedTensor",
    "MultiTableEmbedding",
    "MultiTableMultiColumnEmbedding",
    "Optimizer",
    "PersistentTableReader",
    "PersistentTableWriter",
    "Prefetcher",
    "RowWiseAdagrad",
    "SmartDecayAdam",
    "make_cached_host_mem_store_options",
    "make_cached_ssd_store_options",
    "make_column_options",
    "make_constant_initializer",
    "make_count_admission",
    "make_device_mem_store_options",
    "make_normal_initializer",
    "make_persistent_table_reader",
    "make_persistent_table_writer",
    "make_probability_admission",
    "make_table",
    "make_table_options",
    "make_trunc_normal_initializer",
    "make_uniform_initializer",
]
