"""Distributions of vectors and matrices that a covariance describes."""

from __future__ import annotations

import math
from typing import Any

import oneflow
from oneflow import Size, Tensor
from oneflow._functions.gamma_draws import standard_gamma
from oneflow.distributions import constraints
from oneflow.distributions.distribution import Distribution, ExponentialFamily
from oneflow.distributions.utils import lazy_property

_LOG_2PI = math.log(2 * math.pi)


def _mahalanobis(factor: Tensor, x: Tensor) -> Tensor:
    """The squared length of x (*, n) by the inverse of ``factor @ factor.T``."""
    return oneflow.linalg.solve_triangular(factor, x.unsqueeze(-1), upper=False).square().sum((-2, -1))


def _precision_to_scale_tril(precision: Tensor) -> Tensor:
    """Return the Cholesky factor of the inverse: reverse the matrix, invert it and reverse the result."""
    factor = oneflow.linalg.cholesky(precision.flip((-2, -1))).flip((-2, -1)).mT
    one = oneflow.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return oneflow.linalg.solve_triangular(factor, one.expand(precision.shape), upper=False)


class MultivariateNormal(Distribution):
    """The normal distribution of vectors.

    Args:
        loc: (*, n), the mean.
        covariance_matrix: (*, n, n), positive definite; or
        precision_matrix: its inverse; or
        scale_tril: its Cholesky factor.

    Raises:
        ValueError: not exactly one of the three is given.

    Example::

        >>> oneflow.distributions.MultivariateNormal(oneflow.zeros(2), oneflow.eye(2)).log_prob(oneflow.zeros(2))
        tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _parameters = {
        "loc": 1,
        "covariance_matrix": 2,
        "precision_matrix": 2,
        "scale_tril": 2,
        "_unbroadcasted_scale_tril": 2,
    }

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        named = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = {name: value for name, value in named.items() if value is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        shape = oneflow.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand((*shape, *loc.shape[-1:]))
        setattr(self, name, matrix.expand((*shape, *matrix.shape[-2:])))
        super().__init__(shape, self.loc.shape[-1:], validate_args=validate_args)
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = oneflow.linalg.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        n = self._event_shape[0]
        return self._unbroadcasted_scale_tril.expand((*self._batch_shape, n, n))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        n = self._event_shape[0]
        return (factor @ factor.mT).expand((*self._batch_shape, n, n))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        n = self._event_shape[0]
        return oneflow.cholesky_inverse(self._unbroadcasted_scale_tril).expand((*self._batch_shape, n, n))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.square().sum(-1).expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        e = oneflow.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ e.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        apart = self._checked(value) - self.loc
        factor = self._unbroadcasted_scale_tril.expand((*apart.shape[:-1], *self._unbroadcasted_scale_tril.shape[-2:]))
        return -0.5 * (self._event_shape[0] * _LOG_2PI + _mahalanobis(factor, apart)) - self._half_log_det()

    def entropy(self) -> Tensor:
        value = 0.5 * self._event_shape[0] * (1.0 + _LOG_2PI) + self._half_log_det()
        return value.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """A :class:`MultivariateNormal` of covariance ``cov_factor @ cov_factor.T + diag(cov_diag)``.

    Args:
        loc: (*, n).
        cov_factor: (*, n, rank).
        cov_diag: (*, n), above 0.

    Example::

        >>> oneflow.distributions.LowRankMultivariateNormal(oneflow.zeros(2), oneflow.ones(2, 1),
        ...     oneflow.ones(2)).variance
        tensor([2., 2.])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _parameters = {"loc": 1, "cov_factor": 2, "cov_diag": 1}

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        n = loc.shape[-1]
        if cov_factor.dim() < 2 or cov_factor.shape[-2] != n:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {n} x m")
        if cov_diag.shape[-1:] != (n,):
            raise ValueError(f"cov_diag must be a batch of vectors with shape {(n,)}")
        shape = oneflow.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc, self.cov_diag = loc.expand((*shape, n)), cov_diag.expand((*shape, n))
        self.cov_factor = cov_factor.expand((*shape, n, cov_factor.shape[-1]))
        super().__init__(shape, (n,), validate_args=validate_args)

    @property
    def _capacitance_tril(self) -> Tensor:
        """The Cholesky factor of ``I + W.T D^-1 W``, the small matrix that Woodbury's identity needs."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        small = scaled @ self.cov_factor
        return oneflow.linalg.cholesky(small + oneflow.eye(small.shape[-1], dtype=small.dtype, device=small.device))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return oneflow.linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        a = oneflow.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self.cov_diag.reciprocal().diag_embed() - a.mT @ a

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        dtype, device = self.loc.dtype, self.loc.device
        small = oneflow.randn((*shape[:-1], self.cov_factor.shape[-1]), dtype=dtype, device=device)
        wide = oneflow.randn(shape, dtype=dtype, device=device)
        return self.loc + (self.cov_factor @ small.unsqueeze(-1)).squeeze(-1) + self.cov_diag.sqrt() * wide

    def _log_det(self) -> Tensor:
        small = self._capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return 2 * small + self.cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        apart = self._checked(value) - self.loc
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        inner = (scaled @ apart.unsqueeze(-1)).squeeze(-1)
        factor = self._capacitance_tril
        factor = factor.expand((*inner.shape[:-1], *factor.shape[-2:]))
        length = (apart.square() / self.cov_diag).sum(-1) - _mahalanobis(factor, inner)
        return -0.5 * (self._event_shape[0] * _LOG_2PI + self._log_det() + length)

    def entropy(self) -> Tensor:
        value = 0.5 * (self._event_shape[0] * (1.0 + _LOG_2PI) + self._log_det())
        return value.expand(self._batch_shape)


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices (Lewandowski et al., 2009, by the onion method).

    Args:
        dim: rows of a matrix, at least 2.
        concentration: 1 makes correlation matrices uniform, larger values concentrate them near the unit matrix.

    Example::

        >>> oneflow.distributions.LKJCholesky(3, 1.0).sample().shape
        oneflow.Size([3, 3])
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        from oneflow.distributions.gamma import Beta
        from oneflow.distributions.utils import broadcast_all

        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        a = self.concentration
        offset = oneflow.arange(dim - 1, dtype=a.dtype, device=a.device)
        row = oneflow.cat([offset.new_zeros((1,)), offset])
        first = row + 0.5
        second = a.unsqueeze(-1) + 0.5 * (dim - 2) - 0.5 * row
        self._beta = Beta(first, second, validate_args=False)
        super().__init__(a.shape, (dim, dim), validate_args=validate_args)

    def _expand_into(self, new: Any, shape: Size) -> None:
        new.dim = self.dim
        new.concentration = self.concentration.expand(shape)
        new._beta = self._beta.expand((*shape, self.dim))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with oneflow.no_grad():
            share = self._beta.sample(sample_shape).unsqueeze(-1)
            u = oneflow.randn(self._extended_shape(sample_shape), dtype=share.dtype, device=share.device).tril(-1)
            direction = u / u.norm(dim=-1, keepdim=True).clamp(min=oneflow.finfo(u.dtype).tiny)
            # The first row is the first unit vector.
            first = oneflow.arange(self.dim, device=u.device).reshape(-1, 1) == 0
            w = oneflow.where(first, 0.0, share.sqrt() * direction)
            eps = oneflow.finfo(w.dtype).tiny
            return w + (1 - w.square().sum(-1)).clamp(min=eps).sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        diagonal = self._checked(value).diagonal(dim1=-2, dim2=-1)[..., 1:]
        n = self.dim
        a = self.concentration
        order = oneflow.arange(2, n + 1, dtype=a.dtype, device=a.device)
        order = 2 * (a - 1).unsqueeze(-1) + n - order
        likely = (order * diagonal.log()).sum(-1)
        alpha = a + 0.5 * (n - 1)
        normalizer = (alpha - 0.5).mvlgamma(n - 1) - alpha.lgamma() * (n - 1) + 0.5 * (n - 1) * math.log(math.pi)
        return likely - normalizer


class Wishart(ExponentialFamily):
    """The Wishart distribution of positive definite matrices.

    Args:
        df: degrees of freedom, above n - 1.
        covariance_matrix, precision_matrix, scale_tril: (*, n, n), one of them, as for :class:`MultivariateNormal`.

    Example::

        >>> oneflow.distributions.Wishart(oneflow.tensor(3.0), oneflow.eye(2)).mean
        tensor([[3., 0.],
                [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = {
        "df": 0,
        "covariance_matrix": 2,
        "precision_matrix": 2,
        "scale_tril": 2,
        "_unbroadcasted_scale_tril": 2,
    }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        named = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = {name: value for name, value in named.items() if value is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = df if isinstance(df, Tensor) else oneflow.tensor(float(df), dtype=matrix.dtype, device=matrix.device)
        shape = oneflow.broadcast_shapes(matrix.shape[:-2], df.shape)
        event = matrix.shape[-2:]
        self.df = df.expand(shape)
        setattr(self, name, matrix.expand((*shape, *event)))
        if bool((self.df <= event[-1] - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event[-1] - 1}.")
        super().__init__(shape, event, validate_args=validate_args)
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = oneflow.linalg.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the scale."""
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The scale."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the scale."""
        return oneflow.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._batch_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.df.reshape(*self._batch_shape, 1, 1) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[-1] - 1
        factor = oneflow.where(factor <= 0, math.nan, factor)
        return factor.reshape(*self._batch_shape, 1, 1) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        d = v.diagonal(dim1=-2, dim2=-1)
        return self.df.reshape(*self._batch_shape, 1, 1) * (v.square() + d.unsqueeze(-1) * d.unsqueeze(-2))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw by Bartlett's decomposition."""
        n = self._event_shape[-1]
        shape = (*sample_shape, *self._batch_shape)
        dtype, device = self._unbroadcasted_scale_tril.dtype, self.df.device
        degrees = self.df.to(dtype).unsqueeze(-1) - oneflow.arange(n, dtype=dtype, device=device)
        chi2 = 2 * standard_gamma((degrees / 2).expand((*shape, n)))
        noise = oneflow.randn((*shape, n, n), dtype=dtype, device=device).tril(-1) + chi2.sqrt().diag_embed()
        chol = self._unbroadcasted_scale_tril @ noise
        return chol @ chol.mT

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        nu, p = self.df, self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        half_log_det = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        shape = (*oneflow.broadcast_shapes(value.shape[:-2], factor.shape[:-2]), p, p)
        solved = oneflow.cholesky_solve(value.expand(shape), factor.expand(shape))
        return (
            -nu * (p * math.log(2) / 2 + half_log_det)
            - (nu / 2).mvlgamma(p)
            + (nu - p - 1) / 2 * oneflow.linalg.slogdet(value)[1]
            - solved.diagonal(dim1=-2, dim2=-1).sum(-1) / 2
        )

    def entropy(self) -> Tensor:
        nu, p = self.df, self._event_shape[-1]
        half_log_det = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        steps = oneflow.arange(p, dtype=nu.dtype, device=nu.device)
        digammas = ((nu.unsqueeze(-1) - steps) / 2).digamma().sum(-1)
        return (
            (p + 1) * (p * math.log(2) / 2 + half_log_det)
            + (nu / 2).mvlgamma(p)
            - (nu - p - 1) / 2 * digammas
            + nu * p / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (p * math.log(2) - oneflow.linalg.slogdet(-2 * x)[1]) + half.mvlgamma(p)
