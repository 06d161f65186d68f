"""Samples of clicks: Criteo's files (TSV, or Parquet where pyarrow is installed), or a generator with a known answer.

A sample is 13 numbers, 26 categories and a label. Batches come as NumPy arrays; no framework is imported here.
"""

from __future__ import annotations

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
