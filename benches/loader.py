"""Epochs of a loader with two worker processes over images, in wall time: the work is done by other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Case = tuple[str, Callable[[], object]]

N_IMAGES, BATCH, WORKERS = 512, 32, 2


def images(torch: Any, side: int, tensors: bool) -> Any:
    """Images as bytes become numbers in [0, 1], (3, side, side): by the package's ops, or as NumPy's arrays."""
    kept = np.random.default_rng(0).integers(0, 256, (64, 3, side, side), dtype="u1")
    held = torch.from_numpy(kept) if tensors else kept

    class Images(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return N_IMAGES

        def __getitem__(self, i: int) -> tuple[Any, int]:
            image = held[i % 64]
            return (image.float() / 255 if tensors else image.astype("f4") / np.float32(255)), i % 10

    return Images()


def loader(torch: Any, device: str) -> Iterator[Case]:
    """One call is one epoch; the workers live through all of them."""
    for side in (32, 224):
        for tensors in (False, True):
            batches = torch.utils.data.DataLoader(
                images(torch, side, tensors), BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True
            )

            def epoch(batches: Any = batches) -> float:
                return sum(float(x[0, 0, 0, 0]) for x, _ in batches)

            of = "made by tensor ops" if tensors else "as arrays"
            yield f"{N_IMAGES} images 3x{side}x{side} {of}, {WORKERS} workers", epoch
