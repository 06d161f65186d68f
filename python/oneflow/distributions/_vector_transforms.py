"""Transforms of whole vectors and matrices, and of parts side by side. Public under ``distributions.transforms``."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Size, Tensor
from oneflow.distributions import constraints
from oneflow.distributions._transforms import Transform, _clipped_sigmoid, _Elementwise
from oneflow.distributions.utils import _sum_rightmost, tril_matrix_to_vec, vec_to_tril_matrix
from oneflow.nn import functional as F


class CorrCholeskyTransform(Transform):
    """Vectors of n (n - 1) / 2 numbers as Cholesky factors of n x n correlation matrices.

    Row by row, tanh of the numbers is each entry's share of the row's remaining length (Lewandowski et al.,
    2009).

    Example::

        >>> oneflow.distributions.CorrCholeskyTransform()(oneflow.zeros(1))
        tensor([[1., 0.],
                [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        x = x.tanh()
        eps = oneflow.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.clamp(-1 + eps, 1 - eps), diag=-1)
        rest = (1 - r.square()).sqrt().cumprod(-1)
        r = r + oneflow.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * F.pad(rest[..., :-1], [1, 0], value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        left = 1 - y.square().cumsum(-1)
        shifted = F.pad(left[..., :-1], [1, 0], value=1.0)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(shifted, diag=-1).sqrt()
        return (t.log1p() - (-t).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = 1 - y.square().cumsum(-1)
        stretch = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1)
        return stretch - 2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        n = shape[-1]
        size = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class SoftmaxTransform(_Elementwise):
    """Softmax over the last dimension; the inverse returns logarithms.

    Example::

        >>> oneflow.distributions.SoftmaxTransform()(oneflow.zeros(2))
        tensor([0.5000, 0.5000])
    """

    bijective = False
    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Elementwise):
    """Vectors of n numbers as n + 1 shares: each takes a part of what is left of a stick.

    Example::

        >>> oneflow.distributions.StickBreakingTransform()(oneflow.zeros(1))
        tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _offset(self, x: Tensor) -> Tensor:
        n = x.shape[-1]
        return oneflow.arange(n, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Tensor) -> Tensor:
        z = _clipped_sigmoid(x - self._offset(x))
        return F.pad(z, [0, 1], value=1.0) * F.pad((1 - z).cumprod(-1), [1, 0], value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        shares = y[..., :-1]
        left = (1 - shares.cumsum(-1)).clamp(min=oneflow.finfo(y.dtype).tiny)
        return shares.log() - left.log() + self._offset(shares)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offset(x)
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(_Elementwise):
    """Matrices as lower triangles with a positive diagonal: exp on the diagonal, nothing above it.

    Example::

        >>> oneflow.distributions.LowerCholeskyTransform()(oneflow.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    bijective = False
    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Elementwise):
    """Matrices as positive definite ones: a Cholesky factor times its transpose.

    Example::

        >>> oneflow.distributions.PositiveDefiniteTransform()(oneflow.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    bijective = False
    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(oneflow.linalg.cholesky(y))


class CatTransform(Transform):
    """Maps side by side along a dimension.

    Args:
        tseq: the maps.
        lengths: how long each one's part is; 1 by default.

    Example::

        >>> oneflow.distributions.CatTransform([oneflow.distributions.ExpTransform(),
        ...     oneflow.distributions.AffineTransform(1.0, 2.0)], lengths=[1, 1])(oneflow.zeros(2))
        tensor([1., 1.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.dim = dim

    @property
    def length(self) -> int:
        """How long the whole dimension is."""
        return sum(self.lengths)

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, x: Tensor) -> Any:
        if x.shape[self.dim] != sum(self.lengths):
            raise ValueError(
                f"expected {sum(self.lengths)} entries along dimension {self.dim}, got {x.shape[self.dim]}"
            )
        return x.split(self.lengths, self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return oneflow.cat([t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return oneflow.cat([t.inv(part) for t, part in zip(self.transforms, self._parts(y), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = []
        for t, a, b in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            term = t.log_abs_det_jacobian(a, b)
            terms.append(_sum_rightmost(term, self.event_dim - t.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        return oneflow.cat(terms, dim) if dim < 0 else functools.reduce(operator.add, terms)


class StackTransform(Transform):
    """Maps of the entries along a dimension, one each.

    Example::

        >>> oneflow.distributions.StackTransform([oneflow.distributions.ExpTransform(),
        ...     oneflow.distributions.AffineTransform(1.0, 2.0)])(oneflow.zeros(2))
        tensor([1., 1.])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        parts = zip(self.transforms, x.unbind(self.dim), strict=True)
        return oneflow.stack([t(part) for t, part in parts], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = zip(self.transforms, y.unbind(self.dim), strict=True)
        return oneflow.stack([t.inv(part) for t, part in parts], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(self.transforms, x.unbind(self.dim), y.unbind(self.dim), strict=True)
        return oneflow.stack([t.log_abs_det_jacobian(a, b) for t, a, b in parts], self.dim)


class CumulativeDistributionTransform(Transform):
    """A distribution's ``cdf``.

    Args:
        distribution: of one-dimensional events, with ``cdf`` and ``icdf``.

    Example::

        >>> oneflow.distributions.CumulativeDistributionTransform(oneflow.distributions.Normal(0.0,
        ...     1.0))(oneflow.zeros(1))
        tensor([0.5000])
    """

    bijective = True
    codomain = constraints.unit_interval
    sign: Any = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return (
            self if self._cache_size == cache_size else CumulativeDistributionTransform(self.distribution, cache_size)
        )
