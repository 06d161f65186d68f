"""Rotary positions: queries and keys are rotated by an angle that grows with their position.

Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021. A head's first and second half are the
two coordinates of its planes, as in the published Llama weights on Hugging Face.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import oneflow as torch
from oneflow import Tensor, nn


@dataclass
class RotaryScaling:
    """How Llama 3.1 stretches the angles for longer texts: slow planes turn ``factor`` times slower."""

    factor: float = 8.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_positions: int = 8192


class RotaryTables(nn.Module):
    """Cosines and sines of the angles of positions 0 to ``n_positions - 1``.

    Args:
        head_dim: size of a head, even.
        n_positions: how many positions to tabulate.
        base: the slowest plane turns by one radian in about ``base`` positions.
        scaling: stretching of the angles, none by default.

    Example::

        >>> from oneflow.models.layers import RotaryTables, rotate
        >>> tables = RotaryTables(head_dim=4, n_positions=16)
        >>> rotate(oneflow.ones(1, 2, 3, 4), tables(start=0, length=3)).shape
        oneflow.Size([1, 2, 3, 4])
    """

    cos: Tensor
    sin: Tensor

    def __init__(
        self, head_dim: int, n_positions: int, base: float = 10000.0, scaling: RotaryScaling | None = None
    ) -> None:
        super().__init__()
        frequencies = 1.0 / base ** (torch.arange(0, head_dim, 2).float() / head_dim)
        if scaling is not None:
            frequencies = _stretch(frequencies, scaling)
        angles = torch.outer(torch.arange(n_positions).float(), frequencies)
        angles = torch.cat([angles, angles], dim=-1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, start: int, length: int, positions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The rows ``start`` to ``start + length``, each (length, head_dim); or those of ``positions`` (batch, length),
        each (batch, 1, length, head_dim)."""
        if positions is not None:
            return self.cos[positions][:, None], self.sin[positions][:, None]
        return self.cos[start : start + length], self.sin[start : start + length]


def _stretch(frequencies: Tensor, scaling: RotaryScaling) -> Tensor:
    turns = scaling.original_positions * frequencies / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    share = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return frequencies * (share + (1.0 - share) / scaling.factor)


def rotate(x: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
    """Turn ``x`` (batch, heads, time, head_dim) by the angles of ``tables``, each broadcastable to (time, head_dim)."""
    cos, sin = tables
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    # Under autocast the tables are wider than the states.
    return (x * cos + turned * sin).to(x.dtype)
