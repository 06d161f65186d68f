"""Samples of clicks: Criteo's files (TSV, or Parquet where pyarrow is installed), MovieLens' ratings, or a generator.

The right answer of generated clicks is known.

A sample is some numbers (13), categories (26) and a label. Batches come as NumPy arrays; no framework is imported here.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

N_DENSE, N_CATEGORIES = 13, 26
# Distinct values of the 26 categories, as published.
CARDINALITIES = {
    "criteo-kaggle": (
        *(1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194),
        *(27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572),
    ),
    "criteo-1t": (
        *(39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10),
        *(2208, 11938, 155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36),
    ),
    "small": (*(50, 20, 5000, 2000, 300, 24, 1000, 600, 3, 4000, 2000, 5000, 500),) + (30,) * 13,
}

Batch = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Shape:
    """How many numbers and categories a sample has; the first ``n_user`` categories are the user's, the rest the
    item's."""

    n_dense: int = N_DENSE
    n_categories: int = N_CATEGORIES
    n_user: int = 13


CLICKS = Shape()
# Age and year; user, gender, occupation and region; item and up to three genres.
MOVIES = Shape(2, 8, 4)


def mix(x: np.ndarray) -> np.ndarray:
    """Spread 64 bits over 64 bits (the finalizer of SplitMix64)."""
    x = x.astype(np.uint64)
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def unit(x: np.ndarray) -> np.ndarray:
    """Evenly spread numbers in [0, 1) by hash."""
    return (mix(x) >> np.uint64(11)).astype(np.float64) / 2.0**53


@dataclass
class Generator:
    """Clicks whose true probabilities are known, so that the best possible AUC is.

    Ids of a category follow Zipf's law over its cardinality. Each id has a weight, a hash of it; the logit is the sum
    of a sample's weights, a linear function of its numbers and a bias. Samples are a function of seed and position.
    """

    cardinalities: tuple[int, ...] = CARDINALITIES["small"]
    alpha: float = 1.05
    seed: int = 0
    noise: float = 0.5
    slopes: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.slopes = np.random.default_rng(self.seed).normal(0, 0.2, N_DENSE)

    def _ids(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Ranks by the inverse of Zipf's cumulative distribution, in a continuous approximation."""
        power = 1.0 - self.alpha
        ids = np.empty((n, len(self.cardinalities)), dtype=np.int64)
        for i, rows in enumerate(self.cardinalities):
            u = rng.random(n)
            top = float(rows + 1)
            rank = top**u if power == 0 else (1 + u * (top**power - 1)) ** (1 / power)
            ids[:, i] = np.minimum(rank.astype(np.int64) - 1, rows - 1)
        return ids

    def logits(self, dense: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """The true ones."""
        columns = np.arange(ids.shape[1], dtype=np.uint64) << np.uint64(48)
        weights = unit(ids.astype(np.uint64) ^ columns ^ mix(np.uint64(self.seed + 1)))
        return (weights - 0.5).sum(1) * 1.5 + dense @ self.slopes - 1.0

    def batches(self, n_samples: int, batch_size: int, first: int = 0) -> Iterator[Batch]:
        """Numbers (batch, 13), ids (batch, 26) and labels (batch), from the sample ``first`` on."""
        for start in range(first, first + n_samples, batch_size):
            n = min(batch_size, first + n_samples - start)
            rng = np.random.default_rng((self.seed, start))
            dense, ids = rng.normal(size=(n, N_DENSE)).astype(np.float32), self._ids(rng, n)
            clicks = rng.random(n) < 1 / (1 + np.exp(-self.logits(dense, ids)))
            yield dense, ids, clicks.astype(np.float32)


def _rows(columns: list[list[str]]) -> Batch:
    label, numbers, categories = columns[0], columns[1 : 1 + N_DENSE], columns[1 + N_DENSE :]
    dense = np.array([[float(v) if v else 0.0 for v in column] for column in numbers], dtype=np.float32).T
    # A missing category is an id of its own, as the files' own values are 32 bits.
    ids = np.array([[int(v, 16) if v else 1 << 32 for v in column] for column in categories], dtype=np.int64).T
    return scaled(dense), ids, np.array(label, dtype=np.float32)


def scaled(dense: np.ndarray) -> np.ndarray:
    """Counts as logarithms, as published for this data."""
    return np.log1p(np.maximum(np.nan_to_num(dense), 0)).astype(np.float32)


def read_tsv(path: Path, batch_size: int) -> Iterator[Batch]:
    """Criteo's text: a label, 13 whole numbers and 26 categories of eight hexadecimal digits. Any may be missing."""
    lines: list[list[str]] = []
    with path.open() as file:
        for number, line in enumerate(file, 1):
            parts = line.rstrip("\n").split("\t")
            if len(parts) != 1 + N_DENSE + N_CATEGORIES:
                raise ValueError(
                    f"{path}, line {number}: expected {1 + N_DENSE + N_CATEGORIES} columns, got {len(parts)}"
                )
            lines.append(parts)
            if len(lines) == batch_size:
                yield _rows(list(map(list, zip(*lines, strict=True))))
                lines = []
    if lines:
        yield _rows(list(map(list, zip(*lines, strict=True))))


def read_parquet(path: Path, batch_size: int) -> Iterator[Batch]:
    """Columns ``label``, ``int_0`` to ``int_12``, ``cat_0`` to ``cat_25``; categories are integers or text."""
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise SystemExit("reading Parquet needs pyarrow: pip install pyarrow") from error
    numbers = [f"int_{i}" for i in range(N_DENSE)]
    categories = [f"cat_{i}" for i in range(N_CATEGORIES)]
    with parquet.ParquetFile(path) as file:
        for part in file.iter_batches(batch_size, columns=["label", *numbers, *categories]):
            table = part.to_pydict()
            dense = np.array([[v or 0 for v in table[name]] for name in numbers], dtype=np.float32).T

            def id_of(value: object) -> int:
                if value is None or value == "":
                    return 1 << 32
                return int(value, 16) if isinstance(value, str) else int(value)  # type: ignore[call-overload]

            ids = np.array([[id_of(v) for v in table[name]] for name in categories], dtype=np.int64).T
            yield scaled(dense), ids, np.array(table["label"], dtype=np.float32)


def movielens(folder: Path | None = None) -> Path:
    """The folder of MovieLens-100k: this one, or that of the package ``recbole``, which is not imported."""
    if folder is not None:
        return folder
    found = importlib.util.find_spec("recbole")
    places = (
        [Path(p) / "dataset_example" / "ml-100k" for p in (found.submodule_search_locations or [])] if found else []
    )
    if not places or not places[0].is_dir():
        raise SystemExit("MovieLens-100k is in the package recbole (pip install --no-deps recbole), or name its folder")
    return places[0]


def _table(folder: Path, ending: str) -> list[dict[str, str]]:
    """The rows of ``ml-100k.ENDING``: tab-separated, with ``name:type`` in the first line."""
    lines = (folder / f"ml-100k.{ending}").read_text(encoding="utf-8").splitlines()
    names = [name.partition(":")[0] for name in lines[0].split("\t")]
    return [dict(zip(names, line.split("\t"), strict=True)) for line in lines[1:]]


def read_movielens(folder: Path, batch_size: int, is_evaluation: bool, seed: int = 0) -> Iterator[Batch]:
    """Ratings of 4 and 5 against the others, in an order drawn from the seed. A tenth is for evaluation.

    Words (occupations, genres, regions) become ids by a hash of their letters.
    """
    users = {row["user_id"]: row for row in _table(folder, "user")}
    items = {row["item_id"]: row for row in _table(folder, "item")}
    ratings = _table(folder, "inter")
    number = {word: int.from_bytes(word.encode()[:7], "little") for row in users.values() for word in row.values()}
    genres = [*{genre for row in items.values() for genre in row["class"].split()}]
    number |= {genre: int.from_bytes(genre.encode()[:7], "little") for genre in genres}
    order = np.random.default_rng(seed).permutation(len(ratings))
    n_held = len(ratings) // 10
    part = order[:n_held] if is_evaluation else order[n_held:]
    for first in range(0, len(part), batch_size):
        dense, ids, labels = [], [], []
        for row in (ratings[i] for i in part[first : first + batch_size]):
            user, item = users[row["user_id"]], items[row["item_id"]]
            year = item["release_year"]
            dense.append([float(user["age"]) / 50 - 1, (float(year) - 1990) / 10 if year.isdecimal() else 0.0])
            words = [number[user[name]] for name in ("gender", "occupation")] + [number[user["zip_code"]]]
            named = [number[genre] for genre in item["class"].split()[:3]]
            # No genre is id 0, which no word has.
            ids.append([int(row["user_id"]), *words, int(row["item_id"]), *named, *[0] * (3 - len(named))])
            labels.append(float(row["rating"]) >= 4)
        yield np.array(dense, dtype=np.float32), np.array(ids, dtype=np.int64), np.array(labels, dtype=np.float32)


def read(path: Path, batch_size: int) -> Iterator[Batch]:
    """Batches of a file, by its ending."""
    return (read_parquet if path.suffix == ".parquet" else read_tsv)(path, batch_size)


def auc(scores: np.ndarray, labels: np.ndarray) -> float:
    """The share of pairs of a click and no click whose scores are in order; equal scores count half."""
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    # The mean rank of equal scores.
    _, first, counts = np.unique(ordered, return_index=True, return_counts=True)
    ranks = np.empty(len(scores))
    ranks[order] = np.repeat(first + (counts + 1) / 2, counts)
    n_clicks = float(labels.sum())
    n_others = len(labels) - n_clicks
    if not n_clicks or not n_others:
        raise ValueError("AUC needs samples of both labels")
    return float((ranks[labels > 0].sum() - n_clicks * (n_clicks + 1) / 2) / (n_clicks * n_others))
