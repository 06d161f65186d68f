"""Lookups and training steps of embedding tables: a table in memory in PyTorch, a store of any ids here.

Ids are numbered from zero, as PyTorch wants them ("dense"), or spread over 64 bits, which
a store alone takes ("hashed").
`python -m benches.embedding` trains a DLRM whose tables are larger than the memory for them, beside one that has room.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Case = tuple[str, Callable[[], object]]

N_ROWS, BATCH, BAG = 1 << 20, 1 << 16, 8
DIMS = (16, 32, 128)


# Spreads ids over 64 bits, one to one.
SPREAD = 0x9E3779B97F4A7C15


def ids_of(torch: Any, skewed: bool, is_hashed: bool = False) -> Callable[[], Any]:
    """The batches of a loader that runs round."""
    rng = np.random.default_rng(0)
    draw = (lambda: rng.zipf(1.05, BATCH) % N_ROWS) if skewed else (lambda: rng.integers(0, N_ROWS, BATCH))
    batches = [torch.from_numpy(draw().astype("int64")) for _ in range(8)]
    if is_hashed and not is_torch(torch):
        batches = [ids * torch.tensor(SPREAD - (1 << 64)) for ids in batches]
    state = {"n": 0}

    def following() -> Any:
        state["n"] += 1
        return batches[state["n"] % len(batches)]

    return following


def is_torch(torch: Any) -> bool:
    return str(torch.__name__) == "torch"


def store(torch: Any, dim: int, size_factor: int, is_hashed: bool = False) -> Any:
    """A module whose rows are all there, as in the table that it is compared with."""
    one_embedding = torch.one_embedding
    folder = tempfile.TemporaryDirectory()
    options = one_embedding.make_device_mem_store_options(folder.name, N_ROWS, size_factor)
    module = one_embedding.EmbeddingBag("bench", dim, options)
    module.folder = folder  # Goes away with it.
    sgd = one_embedding.Optimizer(torch.optim.SGD(module.parameters(), lr=0.0), [module])
    for ids in torch.arange(N_ROWS).split(BATCH):
        if is_hashed:
            ids = ids * torch.tensor(SPREAD - (1 << 64))
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


def evaluated(torch: Any, call: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        with torch.no_grad():
            return call()

    return run


def embedding(torch: Any, device: str) -> Iterator[Case]:
    """One call is one batch of 64 K ids of 1 M rows: de-duplicated, looked up, pooled by eight, or trained."""
    for skewed in (False, True):
        which = "Zipf 1.05" if skewed else "uniform"
        yield f"unique, {which}", unique(torch, ids_of(torch, skewed))
    for dim in DIMS:
        # Lookups in tables of weights alone, as one that serves has them.
        for is_hashed in (False, True):
            module = None if is_torch(torch) else store(torch, dim, 1, is_hashed)
            for skewed in (False, True):
                kind = "hashed" if is_hashed else "dense ids"
                which = f"{kind}, d {dim}, {'Zipf 1.05' if skewed else 'uniform'}"
                next_ids = ids_of(torch, skewed, is_hashed)
                for name, case in (("unpooled", unpooled), ("pooled by 8", pooled)):
                    yield f"{name}, {which}", evaluated(torch, case(torch, dim, next_ids, module))
            del module
        module = None if is_torch(torch) else store(torch, dim, 3)
        for skewed in (False, True):
            next_ids = ids_of(torch, skewed)
            for rule in ("Adam", "Adagrad"):
                named = {"Adagrad": "Adagrad (row-wise here)"}.get(rule, rule)
                which = f"d {dim}, {'Zipf 1.05' if skewed else 'uniform'}"
                yield f"forward, backward and {named}, {which}", training(torch, dim, next_ids, module, rule)


def unique(torch: Any, next_ids: Callable[[], Any]) -> Callable[[], object]:
    if is_torch(torch):
        return lambda: torch.unique(next_ids(), return_inverse=True)
    from oneflow._oneflow import _EmbeddingBatch

    return lambda: _EmbeddingBatch(next_ids(), None, 1, None).n_unique


# ---- tables larger than memory


def zipf(rng: np.random.Generator, alpha: float, n_rows: int, size: int) -> np.ndarray:
    """Ids by a continuous approximation of Zipf's law."""
    power = 1.0 - alpha
    rank = (1 + rng.random(size) * ((n_rows + 1.0) ** power - 1)) ** (1 / power)
    return np.minimum(rank.astype(np.int64) - 1, n_rows - 1)


# Distinct values of the 26 categories of Criteo's data sets, as published.
CARDINALITIES = {
    "terabyte": (
        *(39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10),
        *(2208, 11938, 155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36),
    ),
    "kaggle": (
        *(1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194),
        *(27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572),
    ),
}


# Where rows lie on disk.
PAGES = {"auto": None, "pages": True, "log": False}


def click_steps(args: argparse.Namespace, budget_mb: float, way: str) -> dict[str, float]:
    """Train a DLRM of 26 tables; returns samples a second, the share of time that waits for the disk, and bytes."""
    import oneflow
    from oneflow import models, nn, one_embedding

    rng = np.random.default_rng(0)
    oneflow.manual_seed(0)
    cardinalities = [min(rows, args.rows or rows) for rows in CARDINALITIES[args.data]]
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        options = one_embedding.make_cached_ssd_store_options(
            budget_mb, folder, size_factor=2, direct_io=way != "memory", pages=PAGES[args.rows_in]
        )
        table = one_embedding.make_table(one_embedding.make_normal_initializer(0.0, 0.05))
        tables = one_embedding.MultiTableEmbedding(
            "clicks", args.dim, oneflow.float32, oneflow.int64, [table] * 26, options
        )
        model = models.DLRM(models.DLRMConfig(13, (1,) * 26, args.dim, bottom=(512, 256), top=(1024, 512)), tables)
        optimizer = one_embedding.Optimizer(oneflow.optim.Adagrad(model.parameters(), lr=0.01), [tables])
        loss_of = nn.BCEWithLogitsLoss()

        def some_ids(n: int) -> np.ndarray:
            return np.stack([zipf(rng, 1.05, rows, n) for rows in cardinalities], 1)

        def batches(n: int) -> Iterator[Any]:
            for _ in range(n):
                ids = some_ids(args.batch_size)
                dense = rng.normal(size=(args.batch_size, 13)).astype(np.float32)
                label = (rng.random(args.batch_size) < 0.3).astype(np.float32)
                yield tuple(map(oneflow.from_numpy, (dense, ids, label)))

        # Rows are touched first, as in a table that has trained for long: all of them, or as many as the ids name until
        # there are enough.
        if args.rows:
            for number, rows in enumerate(cardinalities):
                for ids in oneflow.arange(rows).split(4096):
                    tables(ids, oneflow.full_like(ids, number)).sum().backward()
                    optimizer.step()
        else:
            while tables.statistics()["rows"] * 8 * args.dim < args.times * args.budget_mb * 2**20:
                tables(oneflow.from_numpy(some_ids(1024))).sum().backward()
                optimizer.step()
        tables.commit()
        data = list(batches(args.steps + args.warm_up))
        before, start = tables.statistics(), 0.0
        loader: Any = data
        if way == "prefetch":
            loader = one_embedding.Prefetcher(data, lambda batch: [(tables, batch[1])])
        for i, (dense, ids, label) in enumerate(loader):
            if i == args.warm_up:
                before, start = tables.statistics(), time.perf_counter()
            loss = loss_of(model(dense, ids), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        seconds, stats = time.perf_counter() - start, tables.statistics()
        change = {name: stats[name] - before[name] for name in ("reads", "prefetched", "initial", "stalled_ns")}
        tables.close()
        return {
            "samples/s": args.steps * args.batch_size / seconds,
            "stalled": change["stalled_ns"] / 1e9 / seconds,
            "from disk a sample": (change["reads"] + change["prefetched"]) / args.steps / args.batch_size,
            "new a sample": change["initial"] / args.steps / args.batch_size,
            "live / budget": stats["live_bytes"] / (budget_mb * 2**20),
            "disk / live": stats["disk_bytes"] / max(stats["live_bytes"], 1),
            "memory / budget": (stats["memory_bytes"] + stats["index_bytes"]) / (budget_mb * 2**20),
        }


def main() -> None:
    parser = argparse.ArgumentParser(prog="benches.embedding", description="DLRM with tables larger than memory")
    parser.add_argument("--data", choices=sorted(CARDINALITIES), default="terabyte", help="whose cardinalities")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument(
        "--rows", type=int, default=0, help="the most of a table, all touched; 0 takes the published numbers"
    )
    parser.add_argument(
        "--times", type=float, default=10.0, help="bytes of rows touched with --rows 0, over the budget"
    )
    parser.add_argument("--budget-mb", type=float, default=46.0)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--rows-in", choices=PAGES, default="auto", help="where rows lie on disk; auto goes by their size"
    )
    parser.add_argument("--folder", help="where the rows lie; a temporary folder if left out")
    args = parser.parse_args()
    import oneflow

    oneflow.set_num_threads(args.threads)
    reference = 0.0
    for way, budget in (("memory", 1e5), ("disk", args.budget_mb), ("prefetch", args.budget_mb)):
        found = click_steps(args, budget, way)
        reference = reference or found["samples/s"]
        text = "  ".join(f"{name} {value:,.3f}" for name, value in found.items())
        print(f"{way:9} x{found['samples/s'] / reference:.3f} of memory's speed  {text}", flush=True)


if __name__ == "__main__":
    main()
