"""Lookups and training steps of embedding tables: a table in memory in PyTorch, a store of any ids here.

A row of PyTorch's has no hash and no check of its key; a store's has both, and its optimizer's state next to it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Case = tuple[str, Callable[[], object]]

N_ROWS, BATCH, BAG = 1 << 20, 1 << 16, 8
DIMS = (16, 32, 128)


def ids_of(torch: Any, skewed: bool) -> Callable[[], Any]:
    """The batches of a loader that runs round."""
    rng = np.random.default_rng(0)
    draw = (lambda: rng.zipf(1.05, BATCH) % N_ROWS) if skewed else (lambda: rng.integers(0, N_ROWS, BATCH))
    batches = [torch.from_numpy(draw().astype("int64")) for _ in range(8)]
    state = {"n": 0}

    def following() -> Any:
        state["n"] += 1
        return batches[state["n"] % len(batches)]

    return following


def is_torch(torch: Any) -> bool:
    return str(torch.__name__) == "torch"


def store(torch: Any, dim: int, size_factor: int, storage_dim: int = -1) -> Any:
    """A module whose rows are all there, as in the table that it is compared with."""
    one_embedding = torch.one_embedding
    folder = tempfile.TemporaryDirectory()
    options = one_embedding.make_device_mem_store_options(folder.name, N_ROWS, size_factor, storage_dim)
    module = one_embedding.EmbeddingBag("bench", dim, options)
    module.folder = folder  # Goes away with it.
    sgd = one_embedding.Optimizer(torch.optim.SGD(module.parameters(), lr=0.0), [module])
    for ids in torch.arange(N_ROWS).split(BATCH):
        rows(torch, module, ids).sum().backward()
        sgd.step()
    return module


def rows(torch: Any, module: Any, ids: Any) -> Any:
    """Rows of a bag's module without pooling."""
    return torch.one_embedding.Embedding.forward(module, ids)


def pooled(torch: Any, dim: int, next_ids: Callable[[], Any], module: Any) -> Callable[[], object]:
    offsets = torch.arange(0, BATCH, BAG)
    if is_torch(torch):
        weight = torch.randn(N_ROWS, dim)
        return lambda: torch.nn.functional.embedding_bag(next_ids(), weight, offsets, mode="sum")
    return lambda: module(next_ids(), offsets)


def unpooled(torch: Any, dim: int, next_ids: Callable[[], Any], module: Any) -> Callable[[], object]:
    if is_torch(torch):
        weight = torch.randn(N_ROWS, dim)
        return lambda: weight.index_select(0, next_ids())
    return lambda: rows(torch, module, next_ids())


def training(torch: Any, dim: int, next_ids: Callable[[], Any], module: Any, rule: str) -> Callable[[], object]:
    """Forward, backward and update; PyTorch's Adam for rows is SparseAdam."""
    if is_torch(torch):
        table = torch.nn.Embedding(N_ROWS, dim, sparse=True)
        made = {"Adam": torch.optim.SparseAdam, "SGD": torch.optim.SGD, "Adagrad": torch.optim.Adagrad}[rule]
        optimizer = made(table.parameters(), lr=1e-3)
    else:
        one_embedding = torch.one_embedding
        inner = {"Adagrad": one_embedding.RowWiseAdagrad}.get(rule) or getattr(torch.optim, rule)
        optimizer = one_embedding.Optimizer(inner(module.parameters(), lr=1e-3), [module])

        def table(ids: Any) -> Any:
            return rows(torch, module, ids)

    def step() -> None:
        optimizer.zero_grad()
        table(next_ids()).sum().backward()
        optimizer.step()

    return step


def unique(torch: Any, next_ids: Callable[[], Any]) -> Callable[[], object]:
    if is_torch(torch):
        return lambda: torch.unique(next_ids(), return_inverse=True)
    from oneflow._oneflow import _EmbeddingBatch

    return lambda: _EmbeddingBatch(next_ids(), None, 1, None)


def embedding(torch: Any, device: str) -> Iterator[Case]:
    """One call is one batch of 64 K ids of 1 M rows: de-duplicated, looked up, pooled by eight, or trained."""
    for skewed in (False, True):
        which = "Zipf 1.05" if skewed else "uniform"
        yield f"unique, {which}", unique(torch, ids_of(torch, skewed))
    for dim in DIMS:
        module = None if is_torch(torch) else store(torch, dim, 3)
        for skewed in (False, True):
            which = f"d {dim}, {'Zipf 1.05' if skewed else 'uniform'}"
            next_ids = ids_of(torch, skewed)
            for name, case in (("unpooled", unpooled), ("pooled by 8", pooled)):
                call = case(torch, dim, next_ids, module)

                def evaluated(call: Callable[[], object] = call) -> object:
                    with torch.no_grad():
                        return call()

                yield f"{name}, {which}", evaluated
            for rule in ("Adam", "Adagrad"):
                named = {"Adagrad": "Adagrad (row-wise here)"}.get(rule, rule)
                yield f"forward, backward and {named}, {which}", training(torch, dim, next_ids, module, rule)
