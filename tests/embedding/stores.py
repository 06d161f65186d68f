"""What the tests of stores share: small embeddings in folders of their own, and all their rows."""

import oneflow
from oneflow import one_embedding as oe

DIM = 8


def options(path, budget_mb=64, size_factor=1, pages=None):
    return oe.make_cached_ssd_store_options(budget_mb, str(path), size_factor=size_factor, pages=pages)


def make(path, dim=DIM, tables=None, size_factor=1, budget_mb=64, pages=None, **kwargs):
    store = options(path, budget_mb, size_factor, pages)
    return oe.MultiTableEmbedding("test", dim, oneflow.float32, oneflow.int64, tables, store, **kwargs)


def sgd(embedding, lr=1.0):
    return oe.Optimizer(oneflow.optim.SGD(embedding.parameters(), lr=lr), [embedding])


def constant(value, admission=None):
    return oe.make_table(oe.make_constant_initializer(value), admission)


def rows_of(embedding, n):
    with oneflow.no_grad():
        return embedding(oneflow.arange(n)).numpy()
