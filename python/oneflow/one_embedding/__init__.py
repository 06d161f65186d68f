"""Embeddings larger than memory: rows are made when they are first trained, and those in use are kept in memory.

A table has no size: any integer is an id. Rows lie in a folder, and in memory as many as the budget allows; the
optimizer's state lies next to the weights and is updated in the same pass. ``docs/guides/recommenders.md`` shows a
whole program.

What is not there yet raises ``NotImplementedError``: rows in a GPU's memory, several ranks, traced graphs, half
precision.
"""

from oneflow.one_embedding._modules import Embedding, MultiTableEmbedding, MultiTableMultiColumnEmbedding
from oneflow.one_embedding._optimizers import Optimizer, RowWiseAdagrad
from oneflow.one_embedding._options import (
    make_cached_host_mem_store_options,
    make_cached_ssd_store_options,
    make_column_options,
    make_constant_initializer,
    make_device_mem_store_options,
    make_normal_initializer,
    make_table,
    make_table_options,
    make_trunc_normal_initializer,
    make_uniform_initializer,
)
from oneflow.optim import Ftrl

__all__ = [
    "Embedding",
    "Ftrl",
    "MultiTableEmbedding",
    "MultiTableMultiColumnEmbedding",
    "Optimizer",
    "RowWiseAdagrad",
    "make_cached_host_mem_store_options",
    "make_cached_ssd_store_options",
    "make_column_options",
    "make_constant_initializer",
    "make_device_mem_store_options",
    "make_normal_initializer",
    "make_table",
    "make_table_options",
    "make_trunc_normal_initializer",
    "make_uniform_initializer",
]
