"""Distributions along the line that a place and a scale describe."""

from __future__ import annotations

import math
from typing import Any

import oneflow
from oneflow import Size, Tensor
from oneflow._functions.gamma_draws import standard_gamma
from oneflow.distributions import constraints
from oneflow.distributions.distribution import Distribution, ExponentialFamily
from oneflow.distributions.utils import broadcast_all


class _LocationScale(Distribution):
    """``loc + scale * x`` of a standard distribution: subclasses define its samples and its density."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameters = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _standard(self, shape: Size) -> Tensor:
        raise NotImplementedError

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.loc + self.scale * self._standard(self._extended_shape(sample_shape))

    def _z(self, value: Tensor) -> Tensor:
        return (self._checked(value) - self.loc) / self.scale

    def _uniform(self, shape: Size) -> Tensor:
        """Return uniform numbers in the open interval (0, 1)."""
        eps = oneflow.finfo(self.loc.dtype).tiny
        return oneflow.rand(shape, dtype=self.loc.dtype, device=self.loc.device).clamp(min=eps)


class Normal(_LocationScale, ExponentialFamily):
    """The normal distribution.

    Args:
        loc: the mean.
        scale: the standard deviation, above 0.

    Example::

        >>> oneflow.distributions.Normal(0.0, 1.0).log_prob(oneflow.tensor(0.0))
        tensor(-0.9189)
    """

    def _standard(self, shape: Size) -> Tensor:
        return oneflow.randn(shape, dtype=self.loc.dtype, device=self.loc.device)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def log_prob(self, value: Tensor) -> Tensor:
        return -self._z(value).square() / 2 - self.scale.log() - math.log(2 * math.pi) / 2

    def cdf(self, value: Tensor) -> Tensor:
        return (1 + (self._z(value) / math.sqrt(2)).erf()) / 2

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + math.log(2 * math.pi) / 2 + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.loc / self.scale.square(), -0.5 * self.scale.square().reciprocal()

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return -0.25 * x.square() / y + 0.5 * (-math.pi / y).log()

    _mean_carrier_measure = 0


class Laplace(_LocationScale):
    """The Laplace distribution.

    Args:
        loc: the mean.
        scale: the mean distance from it, above 0.

    Example::

        >>> oneflow.distributions.Laplace(0.0, 1.0).variance
        tensor(2.)
    """

    def _standard(self, shape: Size) -> Tensor:
        u = oneflow.rand(shape, dtype=self.loc.dtype, device=self.loc.device) * 2 - 1
        return -u.sign() * (-u.abs().clamp(max=1 - oneflow.finfo(u.dtype).eps / 2)).log1p()

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Tensor:
        return self.scale * math.sqrt(2)

    def log_prob(self, value: Tensor) -> Tensor:
        return -(2 * self.scale).log() - self._z(value).abs()

    def cdf(self, value: Tensor) -> Tensor:
        z = self._z(value)
        return 0.5 - 0.5 * z.sign() * (-z.abs()).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """The Cauchy distribution, which has no mean.

    Args:
        loc: the median.
        scale: half the width at half the height, above 0.

    Example::

        >>> oneflow.distributions.Cauchy(0.0, 1.0).log_prob(oneflow.tensor(0.0))
        tensor(-1.1447)
    """

    def _standard(self, shape: Size) -> Tensor:
        return oneflow.empty(shape, dtype=self.loc.dtype, device=self.loc.device).cauchy_()

    @property
    def mean(self) -> Tensor:
        return oneflow.full_like(self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return oneflow.full_like(self.loc, math.inf)

    def log_prob(self, value: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - self._z(value).square().log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self._z(value).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    """The Gumbel distribution.

    Args:
        loc: the mode.
        scale: above 0.

    Example::

        >>> oneflow.distributions.Gumbel(0.0, 1.0).mean
        tensor(0.5772)
    """

    def _standard(self, shape: Size) -> Tensor:
        u = self._uniform(shape).clamp(max=1 - oneflow.finfo(self.loc.dtype).eps / 2)
        return -(-u.log()).log()

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * _EULER

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def log_prob(self, value: Tensor) -> Tensor:
        y = -self._z(value)
        return y - y.exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        return (-(-self._z(value)).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + _EULER)


class StudentT(Distribution):
    """Student's t distribution.

    Args:
        df: degrees of freedom, above 0.
        loc: the median.
        scale: above 0.

    Example::

        >>> oneflow.distributions.StudentT(3.0).variance
        tensor(3.)
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameters = {"df": 0, "loc": 0, "scale": 0}

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return oneflow.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.scale.square() * self.df / (self.df - 2)
        heavy = oneflow.where(self.df > 1, math.inf, oneflow.full_like(self.df, math.nan))
        return oneflow.where(self.df > 2, finite, heavy)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        x = oneflow.randn(shape, dtype=self.df.dtype, device=self.df.device)
        # Twice a gamma of half the degrees is a chi-squared.
        z = 2 * standard_gamma((self.df / 2).expand(shape))
        return self.loc + self.scale * x * (z / self.df).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        y = (self._checked(value) - self.loc) / self.scale
        normalizer = (
            self.scale.log()
            + 0.5 * (self.df.log() + math.log(math.pi))
            + (0.5 * self.df).lgamma()
            - (0.5 * (self.df + 1)).lgamma()
        )
        return -0.5 * (self.df + 1) * (y.square() / self.df).log1p() - normalizer

    def entropy(self) -> Tensor:
        half = 0.5 * self.df
        lbeta = half.lgamma() + math.lgamma(0.5) - (half + 0.5).lgamma()
        return self.scale.log() + (half + 0.5) * ((half + 0.5).digamma() - half.digamma()) + 0.5 * self.df.log() + lbeta


class Uniform(Distribution):
    """The uniform distribution on [low, high).

    Raises:
        ValueError: low is not below high.

    Example::

        >>> oneflow.distributions.Uniform(0.0, 4.0).entropy()
        tensor(1.3863)
    """

    has_rsample = True
    _parameters = {"low": 0, "high": 0}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return oneflow.full_like(self.high, math.nan)

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = oneflow.rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        inside = (self.low <= value) & (self.high > value)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        return ((self._checked(value) - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class VonMises(Distribution):
    """The circular normal distribution: angles about a place.

    Args:
        loc: an angle.
        concentration: how narrow, above 0.

    Example::

        >>> oneflow.distributions.VonMises(oneflow.tensor(0.0), oneflow.tensor(1.0)).mean
        tensor(0.)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    _parameters = {"loc": 0, "concentration": 0}

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        peak = self.concentration * ((self._checked(value) - self.loc).cos() - 1)
        return peak - math.log(2 * math.pi) - oneflow.special.i0e(self.concentration).log()

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance, between 0 and 1."""
        return 1 - oneflow.special.i1e(self.concentration) / oneflow.special.i0e(self.concentration)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw by rejection from a wrapped Cauchy distribution (Best and Fisher, 1979)."""
        with oneflow.no_grad():
            shape = self._extended_shape(sample_shape)
            k = self.concentration.double().expand(shape)
            tau = 1 + (1 + 4 * k.square()).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            # For a small concentration the quotient cancels: its series.
            r = oneflow.where(k < 1e-4, 1 / k + k, (1 + rho.square()) / (2 * rho.clamp(min=1e-300)))
            angle = oneflow.zeros(shape, dtype=oneflow.float64, device=k.device)
            done = oneflow.zeros(shape, dtype=oneflow.bool, device=k.device)
            while not bool(done.all()):
                u1, u2, u3 = oneflow.rand((3, *shape), dtype=oneflow.float64, device=k.device).unbind(0)
                z = (math.pi * u1).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accept = (c * (2 - c) > u2) | ((c / u2).log() + 1 - c >= 0)
                angle = oneflow.where(accept & ~done, (u3 - 0.5).sign() * f.clamp(-1, 1).acos(), angle)
                done = done | accept
            return ((angle + math.pi + self.loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)


_EULER = 0.57721566490153286060
