"""A small convolutional network for 8x8 images."""

from __future__ import annotations

import oneflow as torch
from oneflow import Tensor, nn


def block(n_in: int, n_out: int) -> list[nn.Module]:
    """Convolution, normalisation, activation."""
    return [nn.Conv2d(n_in, n_out, 3, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU()]


class Net(nn.Module):
    """Three convolutions, two poolings, one linear layer: (N, 1, 8, 8) to logits (N, 10)."""

    def __init__(self, width: int = 32, dropout: float = 0.25) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *block(1, width),
            *block(width, width),
            nn.MaxPool2d(2),
            *block(width, 2 * width),
            nn.MaxPool2d(2),
        )
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(2 * width * 4, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.dropout(torch.flatten(self.features(x), 1)))
