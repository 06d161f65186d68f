"""Dropout."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn import functional as F
from oneflow.nn.modules.module import Module


class _DropoutNd(Module):
    _f: Any

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return type(self)._f(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """In training, set each element to zero with probability ``p`` and scale the rest by ``1 / (1 - p)``.

    Args:
        p: probability of zero, within [0, 1].
        inplace: write into the input.
        generator: where the random numbers come from, as in OneFlow.

    A second tensor passed to the module is added to the result, as in OneFlow.

    Example::

        >>> nn.Dropout(0.5).eval()(oneflow.tensor([1.0, 2.0]))
        tensor([1., 2.])
        >>> nn.Dropout(1.0)(oneflow.tensor([1.0, 2.0]))
        tensor([0., 0.])
    """

    _f = staticmethod(F.dropout)

    def __init__(self, p: float = 0.5, inplace: bool = False, generator: oneflow.Generator | None = None) -> None:
        super().__init__(p, inplace)
        self.generator = generator

    def forward(self, input: Tensor, addend: Tensor | None = None) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace, self.generator, addend=addend)


class Dropout1d(_DropoutNd):
    """As :class:`Dropout` for whole channels of (N, C, L) or (C, L).

    Example::

        >>> nn.Dropout1d(0.5).eval()(oneflow.ones(1, 2, 3)).shape
        oneflow.Size([1, 2, 3])
    """

    _f = staticmethod(F.dropout1d)


class Dropout2d(_DropoutNd):
    """As :class:`Dropout` for whole channels of (N, C, H, W).

    Example::

        >>> nn.Dropout2d(0.5).eval()(oneflow.ones(1, 2, 3, 3)).shape
        oneflow.Size([1, 2, 3, 3])
    """

    _f = staticmethod(F.dropout2d)


class Dropout3d(_DropoutNd):
    """As :class:`Dropout` for whole channels of (N, C, D, H, W) or (C, D, H, W).

    Example::

        >>> nn.Dropout3d(0.5).eval()(oneflow.ones(1, 2, 3, 3, 3)).shape
        oneflow.Size([1, 2, 3, 3, 3])
    """

    _f = staticmethod(F.dropout3d)


class AlphaDropout(_DropoutNd):
    """Dropout for SELU networks: mean and variance stay. (Klambauer et al., 2017.)

    Example::

        >>> nn.AlphaDropout(0.5).eval()(oneflow.tensor([1.0, 2.0]))
        tensor([1., 2.])
    """

    _f = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_DropoutNd):
    """As :class:`AlphaDropout` for whole channels.

    Example::

        >>> nn.FeatureAlphaDropout(0.5).eval()(oneflow.ones(1, 2, 3)).shape
        oneflow.Size([1, 2, 3])
    """

    _f = staticmethod(F.feature_alpha_dropout)
