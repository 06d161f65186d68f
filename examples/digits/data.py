"""The handwritten digits: read, split, and shifted a little in training."""

from __future__ import annotations

import gzip
from pathlib import Path

import oneflow as torch
from oneflow import Tensor
from oneflow.utils.data import Dataset, Subset, random_split

FILE = Path(__file__).parent / "digits.csv.gz"


class Digits(Dataset):
    """Images (1, 8, 8) in [0, 1] with their label.

    Args:
        images, labels: all of them.
        shift: move images up to one pixel, at random.
    """

    def __init__(self, images: Tensor, labels: Tensor, shift: bool = False) -> None:
        self.images, self.labels, self.shift = images, labels, shift

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        image = self.images[i]
        if self.shift:
            down, right = torch.randint(0, 3, (2,)).tolist()
            wide = torch.nn.functional.pad(image, (1, 1, 1, 1))
            image = wide[:, down : down + 8, right : right + 8]
        return image, self.labels[i]


def load() -> tuple[Tensor, Tensor]:
    """All images (1797, 1, 8, 8) and labels (1797,)."""
    with gzip.open(FILE, "rt") as file:
        rows = [[int(number) for number in line.split(",")] for line in file]
    table = torch.tensor(rows)
    return table[:, :64].reshape(-1, 1, 8, 8).float() / 16.0, table[:, 64]


def splits(n_test: int, seed: int) -> tuple[Dataset, Dataset]:
    """Training and test set: a fixed random split."""
    images, labels = load()
    generator = torch.Generator().manual_seed(seed)
    train, test = random_split(range(len(labels)), [len(labels) - n_test, n_test], generator=generator)

    def part(subset: Subset, shift: bool) -> Digits:
        chosen = torch.tensor(list(subset))
        return Digits(images[chosen], labels[chosen], shift)

    return part(train, True), part(test, False)
