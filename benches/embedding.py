"""Lookups and training steps of embedding tables: a table in memory in PyTorch, a store of any ids here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Case = tuple[str, Callable[[], object]]

N_ROWS, BATCH = 1 << 20, 1 << 15
DIMS = (16, 32, 128)


def ids_of(torch: Any, skewed: bool) -> list[Any]:
    """Batches of ids, in the order of a loader that runs round."""
    rng = np.random.default_rng(0)
    draw = (lambda: rng.zipf(1.05, BATCH) % N_ROWS) if skewed else (lambda: rng.integers(0, N_ROWS, BATCH))
    return [torch.from_numpy(draw().astype("int64")) for _ in range(8)]


def table(torch: Any, dim: int, size_factor: int) -> tuple[Any, Callable[[Any], Any]]:
    """A table that looks ids up, and what makes its optimizer step rows."""
    if torch.__name__ == "torch":
        return torch.nn.Embedding(N_ROWS, dim, sparse=True), lambda optimizer: optimizer
    stores = torch.one_embedding
    folder = tempfile.TemporaryDirectory()
    options = stores.make_device_mem_store_options(folder.name, N_ROWS, size_factor)
    embedding = stores.MultiTableEmbedding("bench", dim, torch.float32, torch.int64, None, options)
    embedding.folder = folder  # Goes away with it.
    # As in the table that it is compared with, every row is there.
    optimizer = stores.Optimizer(torch.optim.SGD(embedding.parameters(), lr=0.0), [embedding])
    for ids in torch.arange(N_ROWS).split(BATCH):
        embedding(ids).sum().backward()
        optimizer.step()
    return embedding, lambda optimizer: stores.Optimizer(optimizer, [embedding])


def embedding(torch: Any, device: str) -> Iterator[Case]:
    """One call is one batch of ids: evaluated, or trained."""
    for dim in DIMS:
        for skewed in (False, True):
            batches, held = ids_of(torch, skewed), table(torch, dim, 3)
            which = f"d {dim}, {'Zipf 1.05' if skewed else 'uniform'} ids"
            state = {"n": 0}

            def next_ids(batches: Any = batches, state: dict[str, int] = state) -> Any:
                state["n"] += 1
                return batches[state["n"] % len(batches)]

            def lookup(rows: Any = held[0], next_ids: Any = next_ids) -> None:
                with torch.no_grad():
                    rows(next_ids())

            yield f"lookup, {which}", lookup
            adam = torch.optim.SparseAdam if torch.__name__ == "torch" else torch.optim.Adam
            optimizer = held[1](adam(held[0].parameters(), lr=1e-3))

            def step(rows: Any = held[0], optimizer: Any = optimizer, next_ids: Any = next_ids) -> None:
                optimizer.zero_grad()
                rows(next_ids()).sum().backward()
                optimizer.step()

            yield f"forward, backward and Adam, {which}", step
