"""Train a recommender whose tables may be larger than memory.

    python examples/recommender/train.py                                  # DLRM on generated clicks, a minute
    python examples/recommender/train.py --model dcn --optimizer adagrad
    python examples/recommender/train.py --cardinalities criteo-kaggle --cache-mb 64 --samples 2000000
    python examples/recommender/train.py --data day_0.tsv --eval-data day_1.tsv --store rows
    python examples/recommender/train.py --movielens --epochs 5           # ratings that the package recbole ships
    torchrun --nproc-per-node 2 examples/recommender/train.py --payload int8

Shows loss, samples/s and how many rows were found in memory while it trains, and prints the AUC on samples that it has
not seen; for generated clicks also that of the true probabilities, which no model exceeds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "gpt"))

import numpy as np
import oneflow as torch
from data import CARDINALITIES, CLICKS, MOVIES, Batch, Generator, Shape, auc, movielens, read, read_movielens
from oneflow import Tensor, models, nn, one_embedding
from progress import Progress


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(BUILDERS), default="dlrm")
    parser.add_argument("--data", type=Path, nargs="*", help="files to train on (.tsv, .parquet); generated if none")
    parser.add_argument(
        "--movielens", nargs="?", const=True, metavar="FOLDER", help="MovieLens-100k, of a folder or of recbole"
    )
    parser.add_argument("--epochs", type=int, default=1, help="passes over files")
    parser.add_argument("--eval-data", type=Path, nargs="*", help="files to evaluate on")
    parser.add_argument("--cardinalities", choices=sorted(CARDINALITIES), default="small", help="of generated clicks")
    parser.add_argument("--alpha", type=float, default=1.05, help="skew of generated ids")
    parser.add_argument("--samples", type=int, default=200_000, help="to train on")
    parser.add_argument("--eval-samples", type=int, default=50_000)
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--width", type=int, default=16, help="of an embedding")
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--optimizer", choices=sorted(OPTIMIZERS), default="adam")
    parser.add_argument("--cache-mb", type=float, default=256, help="memory for rows")
    parser.add_argument("--store", type=Path, help="folder of the rows; a temporary one if left out")
    parser.add_argument("--admit-after", type=int, default=0, help="updates that must name an id before it gets a row")
    parser.add_argument("--payload", choices=("float32", "bfloat16", "float16", "int8"), default="float32")
    parser.add_argument("--dense-tables", action="store_true", help="tables of nn.Embedding, as a comparison")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser.parse_args()


# Optimizer and the numbers that it keeps for each weight of a row.
OPTIMIZERS: dict[str, tuple[Any, int]] = {
    "sgd": (torch.optim.SGD, 1),
    "adagrad": (torch.optim.Adagrad, 2),
    "rowwise_adagrad": (one_embedding.RowWiseAdagrad, 2),
    "adam": (torch.optim.Adam, 3),
    "smart_decay_adam": (one_embedding.SmartDecayAdam, 3),
}


class Recommender(nn.Module):
    """One of the models over numbers (batch, 13) and categories (batch, 26), or as many as ``shape`` says."""

    def __init__(self, model: nn.Module, kind: str, shape: Shape) -> None:
        super().__init__()
        self.model, self.kind, self.shape = model, kind, shape

    def forward(self, dense: Tensor, ids: Tensor) -> Tensor:
        if self.kind == "two_tower":
            return self.model(ids[:, : self.shape.n_user], ids[:, self.shape.n_user :], dense, None)
        if self.kind == "wide_deep":
            # The rows of a bag in the wide table: pairs of neighbouring categories.
            neighbours = range(0, self.shape.n_categories, 2)
            pairs = torch.stack([ids[:, i] * 1_000_003 + ids[:, i + 1] for i in neighbours], dim=1)
            rows = self.model.config.wide_rows
            return self.model(dense, pairs % rows if rows else pairs, ids)
        return self.model(dense, ids)


def table(folder: Path, name: str, args: argparse.Namespace, columns: list[int]) -> nn.Module:
    """A store with a table for each category."""
    admission = one_embedding.make_count_admission(args.admit_after) if args.admit_after else None
    small = one_embedding.make_normal_initializer(0.0, 0.05)
    parts = [one_embedding.make_column_options(small) for _ in columns]
    store = one_embedding.make_cached_ssd_store_options(
        args.cache_mb, str(folder / name), size_factor=OPTIMIZERS[args.optimizer][1]
    )
    return one_embedding.MultiTableMultiColumnEmbedding(
        name,
        columns,
        torch.float32,
        torch.int64,
        [one_embedding.make_table_options(parts, admission)] * args.shape.n_categories,
        store,
        seed=args.seed,
        payload=args.payload,
    )


def dlrm(args: argparse.Namespace, rows: tuple[int, ...], folder: Path | None) -> nn.Module:
    config = models.DLRMConfig(args.shape.n_dense, rows, args.width, bottom=(64,), top=(128, 64))
    return models.DLRM(config, folder and table(folder, "categories", args, [args.width]))


def deepfm(args: argparse.Namespace, rows: tuple[int, ...], folder: Path | None) -> nn.Module:
    config = models.DeepFMConfig(args.shape.n_dense, rows, args.width, hidden=(128, 64))
    return models.DeepFM(config, folder and table(folder, "categories", args, [args.width, 1]))


def dcn(args: argparse.Namespace, rows: tuple[int, ...], folder: Path | None) -> nn.Module:
    config = models.DCNConfig(args.shape.n_dense, rows, args.width, rank=64, hidden=(128, 64))
    return models.DCN(config, folder and table(folder, "categories", args, [args.width]))


def two_tower(args: argparse.Namespace, rows: tuple[int, ...], folder: Path | None) -> nn.Module:
    config = models.TwoTowerConfig(
        rows[: args.shape.n_user], rows[args.shape.n_user :], args.shape.n_dense, 0, args.width
    )
    return models.TwoTower(config, folder and table(folder, "categories", args, [args.width]))


def wide_deep(args: argparse.Namespace, rows: tuple[int, ...], folder: Path | None) -> nn.Module:
    config = models.WideDeepConfig(args.shape.n_dense, 0 if folder else 1 << 20, rows, args.width, hidden=(128, 64))
    if folder is None:
        return models.WideDeep(config)
    store = one_embedding.make_cached_ssd_store_options(
        args.cache_mb / 8, str(folder / "wide"), size_factor=OPTIMIZERS[args.optimizer][1]
    )
    zeros = one_embedding.make_constant_initializer(0)
    wide = one_embedding.EmbeddingBag("wide", 1, store, default_initializer=zeros, payload=args.payload)
    return models.WideDeep(config, wide, table(folder, "categories", args, [args.width]))


BUILDERS = {"dlrm": dlrm, "deepfm": deepfm, "dcn": dcn, "two_tower": two_tower, "wide_deep": wide_deep}


def tensors(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(torch.from_numpy(np.ascontiguousarray(part)) for part in batch)  # type: ignore[return-value]


def hit_ratio(stores: list[Any]) -> float:
    """The share of different ids that were found in memory, of those that have a row."""
    stats = [store.statistics() for store in stores]
    hits, reads = (sum(s[name] for s in stats) for name in ("hits", "reads"))
    return hits / max(hits + reads, 1)


def main() -> None:
    args = options()
    rank, n_ranks = torch.env.get_rank(), torch.env.get_world_size()
    torch.manual_seed(args.seed)
    generator = Generator(CARDINALITIES[args.cardinalities], args.alpha, args.seed)
    args.shape = MOVIES if args.movielens else CLICKS
    movies = movielens(None if args.movielens is True else Path(args.movielens)) if args.movielens else None
    rows = generator.cardinalities if args.dense_tables else (1,) * args.shape.n_categories
    if args.movielens and args.data:
        raise SystemExit("--movielens and --data name two sources of samples")
    if args.dense_tables and (args.data or args.movielens):
        raise SystemExit("--dense-tables needs generated ids, which have bounds")
    if args.dense_tables and n_ranks > 1:
        raise SystemExit("--dense-tables is a comparison on one rank")

    scratch = None if args.store else tempfile.TemporaryDirectory()
    folder = args.store or Path(scratch.name)  # type: ignore[union-attr]
    built = BUILDERS[args.model](args, rows, None if args.dense_tables else folder)
    model = Recommender(built, args.model, args.shape)
    stores = [m for m in model.modules() if isinstance(m, one_embedding.Embedding)]
    inner = OPTIMIZERS[args.optimizer][0](model.parameters(), lr=args.lr)
    optimizer = one_embedding.Optimizer(inner, stores) if stores else inner
    if n_ranks > 1:
        for p in model.parameters():
            torch.distributed.broadcast(p.data, 0)
    shadows = {id(store.shadow) for store in stores}
    dense_parameters = [p for p in model.parameters() if id(p) not in shadows]
    loss_of = nn.BCEWithLogitsLoss()

    def samples(files: list[Path] | None, n: int, first: int) -> Iterator[Batch]:
        """This rank's share."""
        if movies is not None:
            batches = read_movielens(movies, args.batch_size * n_ranks, first > 0, args.seed)
        elif files:
            batches = (batch for file in files for batch in read(file, args.batch_size * n_ranks))
        else:
            batches = generator.batches(n, args.batch_size * n_ranks, first)
        for batch in batches:
            size = -(-len(batch[2]) // n_ranks)
            yield tuple(part[rank * size : (rank + 1) * size] for part in batch)  # type: ignore[misc]

    n_steps = -(-args.samples // (args.batch_size * n_ranks))
    progress = Progress(n_steps, unit="samples")
    passes = range(args.epochs if args.data or args.movielens else 1)
    every = (batch for _ in passes for batch in samples(args.data, args.samples, 0))
    for step, batch in enumerate(every):
        if step == n_steps:
            break
        dense, ids, clicks = tensors(batch)
        loss = loss_of(model(dense, ids), clicks)
        optimizer.zero_grad()
        loss.backward()
        if n_ranks > 1:
            for p in dense_parameters:
                torch.distributed.all_reduce(p.grad)
                p.grad.div_(n_ranks)
        optimizer.step()
        if rank == 0:
            text = f"loss {float(loss.detach()):.4f}"
            progress.advance(len(clicks) * n_ranks, f"{text}  in memory {hit_ratio(stores):.1%}" if stores else text)
    for store in stores:
        store.save_snapshot("trained")

    model.eval()
    scores, labels, best = [], [], []
    with torch.no_grad():
        for batch in samples(args.eval_data or args.data, args.eval_samples, args.samples):
            dense, ids, clicks = tensors(batch)
            scores.append(model(dense, ids).numpy())
            labels.append(batch[2])
            if movies is None:
                best.append(generator.logits(batch[0], batch[1]))
            if sum(map(len, labels)) >= args.eval_samples:
                break
    result: dict[str, Any] = {"auc": auc(np.concatenate(scores), np.concatenate(labels))}
    if not args.data and movies is None:
        result["best_auc"] = auc(np.concatenate(best), np.concatenate(labels))
    if stores:
        result["hit_ratio"] = hit_ratio(stores)
        result["rows"] = sum(store.statistics()["rows"] for store in stores)
    if rank == 0:
        print(
            "  ".join(
                f"{name} {value:.4f}" if isinstance(value, float) else f"{name} {value:,}"
                for name, value in result.items()
            )
        )
        if args.json:
            args.json.write_text(json.dumps(result))
    for store in stores:
        store.close()
    if scratch is not None:
        scratch.cleanup()


if __name__ == "__main__":
    main()
