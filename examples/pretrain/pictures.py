"""Pictures with their classes: the handwritten digits beside the digits example.

A batch is a pure function of seed and step.
"""

from __future__ import annotations

import random

import oneflow as torch
import oneflow.nn.functional as F
from data import load
from oneflow import Tensor

N_CLASSES = 10
_HELD_OUT = 360


class Pictures:
    """Digits to train on and digits held out.

    Args:
        side: of the pictures in pixels; the digits have eight and are enlarged.

    Raises:
        ValueError: fewer than eight pixels.
    """

    def __init__(self, side: int) -> None:
        if side < 8:
            raise ValueError(f"model.image: the digits have 8 pixels a side, got {side}")
        images, labels = load()
        if side > 8:
            images = F.interpolate(images, size=(side, side), mode="bilinear")
        order = list(range(len(labels)))
        random.Random(1).shuffle(order)
        chosen = [torch.tensor(part) for part in (order[_HELD_OUT:], order[:_HELD_OUT])]
        self.parts = [(images[part], labels[part]) for part in chosen]
        self.about = f"{len(self.parts[0][1]):,} pictures"

    def batch(self, kind: str, seed: int, step: int, size: int, held_out: bool = False) -> tuple[Tensor, ...]:
        """Pictures (size, 1, side, side), and their classes."""
        images, labels = self.parts[held_out]
        draw = random.Random(seed * 1_000_003 + step)
        chosen = torch.tensor([draw.randrange(len(labels)) for _ in range(size)])
        return images[chosen], labels[chosen]
