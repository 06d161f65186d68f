"""Distributions of positive numbers and of shares: gamma, beta, Dirichlet and those derived from them."""

from __future__ import annotations

import math
from typing import Any

import oneflow
from oneflow import Size, Tensor
from oneflow._functions.gamma_draws import dirichlet, standard_gamma
from oneflow.distributions import constraints
from oneflow.distributions.distribution import Distribution, ExponentialFamily
from oneflow.distributions.utils import broadcast_all


class Gamma(ExponentialFamily):
    """The gamma distribution.

    Args:
        concentration: above 0.
        rate: the inverse of the scale, above 0.

    Example::

        >>> oneflow.distributions.Gamma(2.0, 4.0).mean
        tensor(0.5000)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = {"concentration": 0, "rate": 0}

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        drawn = standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        return drawn.clamp(min=oneflow.finfo(drawn.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(oneflow.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device))
        a = self.concentration
        return oneflow.xlogy(a, self.rate) + oneflow.xlogy(a - 1, value) - self.rate * value - a.lgamma()

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()

    def cdf(self, value: Tensor) -> Tensor:
        return oneflow.igamma(self.concentration, self.rate * self._checked(value))

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()


class Chi2(Gamma):
    """The chi-squared distribution.

    Args:
        df: degrees of freedom, above 0.

    Example::

        >>> oneflow.distributions.Chi2(3.0).mean
        tensor(3.)
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2


class Exponential(ExponentialFamily):
    """The exponential distribution.

    Args:
        rate: the inverse of the mean, above 0.

    Example::

        >>> oneflow.distributions.Exponential(2.0).mean
        tensor(0.5000)
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = {"rate": 0}

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return oneflow.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return oneflow.empty(shape, dtype=self.rate.dtype, device=self.rate.device).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        return self.rate.log() - self.rate * self._checked(value)

    def cdf(self, value: Tensor) -> Tensor:
        return 1 - (-self.rate * self._checked(value)).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return -(-natural_params[0]).log()


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution of shares that sum to one.

    Args:
        concentration: (*, n), above 0.

    Example::

        >>> oneflow.distributions.Dirichlet(oneflow.ones(2)).mean
        tensor([0.5000, 0.5000])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _parameters = {"concentration": 1}

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        a = self.concentration
        return oneflow.xlogy(a - 1.0, value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        corner = (self.concentration < 1).all(-1, keepdim=True)
        top = oneflow.nn.functional.one_hot(mode.nan_to_num().argmax(-1), above.shape[-1]).to(mode.dtype)
        return oneflow.where(corner, top, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def entropy(self) -> Tensor:
        k = self.concentration.shape[-1]
        a = self.concentration
        total = a.sum(-1)
        return a.lgamma().sum(-1) - total.lgamma() - (k - total) * total.digamma() - ((a - 1.0) * a.digamma()).sum(-1)


class Beta(ExponentialFamily):
    """The beta distribution of one share.

    Args:
        concentration1: alpha, above 0.
        concentration0: beta, above 0.

    Example::

        >>> oneflow.distributions.Beta(2.0, 2.0).mean
        tensor(0.5000)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        a, b = broadcast_all(concentration1, concentration0)
        self._dirichlet = Dirichlet(oneflow.stack([a, b], -1), validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def _expand_into(self, new: Any, shape: Size) -> None:
        new._dirichlet = self._dirichlet.expand(shape)

    @property
    def concentration1(self) -> Tensor:
        """Alpha."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """Beta."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        return self._dirichlet.variance[..., 0]

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        return self._dirichlet.log_prob(oneflow.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()


class InverseGamma(Distribution):
    """The inverse of a gamma-distributed number.

    Args:
        concentration: above 0.
        rate: above 0.

    Example::

        >>> oneflow.distributions.InverseGamma(2.0, 1.0).mean
        tensor(1.)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.base_dist = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(self.base_dist.batch_shape, validate_args=validate_args)

    def _expand_into(self, new: Any, shape: Size) -> None:
        new.base_dist = self.base_dist.expand(shape)

    @property
    def concentration(self) -> Tensor:
        """The concentration."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        return oneflow.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return oneflow.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape).reciprocal()

    def log_prob(self, value: Tensor) -> Tensor:
        return self.base_dist.log_prob(self._checked(value).reciprocal()) - 2 * value.log()

    def cdf(self, value: Tensor) -> Tensor:
        return 1 - self.base_dist.cdf(self._checked(value).reciprocal())

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class FisherSnedecor(Distribution):
    """Fisher's F distribution.

    Args:
        df1, df2: degrees of freedom, above 0.

    Example::

        >>> oneflow.distributions.FisherSnedecor(2.0, 4.0).mean
        tensor(2.)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameters = {"df1": 0, "df2": 0}

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return oneflow.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return oneflow.where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        a, b = self.df1, self.df2
        value = 2 * b.square() * (a + b - 2) / (a * (b - 2).square() * (b - 4))
        return oneflow.where(b > 4, value, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        x1 = standard_gamma((self.df1 / 2).expand(shape)) / (self.df1 / 2)
        x2 = standard_gamma((self.df2 / 2).expand(shape)) / (self.df2 / 2)
        tiny = oneflow.finfo(x2.dtype).tiny
        return (x1 / x2.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        a, b = self.df1 / 2, self.df2 / 2
        ratio = self.df1 / self.df2
        lbeta = a.lgamma() + b.lgamma() - (a + b).lgamma()
        return a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p() - lbeta


class HalfNormal(Distribution):
    """The size of a normal number of mean 0.

    Args:
        scale: the normal's standard deviation, above 0.

    Example::

        >>> oneflow.distributions.HalfNormal(1.0).mean
        tensor(0.7979)
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _parameters = {"scale": 0}

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast_all(scale)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        return oneflow.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return oneflow.randn(shape, dtype=self.scale.dtype, device=self.scale.device).abs() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        inside = math.log(2 / math.pi) / 2 - self.scale.log() - (value / self.scale).square() / 2
        return oneflow.where(value >= 0, inside, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        return (self._checked(value) / self.scale / math.sqrt(2)).erf()

    def icdf(self, value: Tensor) -> Tensor:
        return value.erfinv() * self.scale * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + math.log(2 * math.pi) / 2 + self.scale.log() - math.log(2)


class HalfCauchy(Distribution):
    """The size of a Cauchy number of median 0.

    Args:
        scale: above 0.

    Example::

        >>> oneflow.distributions.HalfCauchy(1.0).log_prob(oneflow.tensor(1.0))
        tensor(-1.1447)
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _parameters = {"scale": 0}

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast_all(scale)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return oneflow.full_like(self.scale, math.inf)

    @property
    def mode(self) -> Tensor:
        return oneflow.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return oneflow.full_like(self.scale, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return oneflow.empty(shape, dtype=self.scale.dtype, device=self.scale.device).cauchy_().abs() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        inside = math.log(2 / math.pi) - self.scale.log() - (value / self.scale).square().log1p()
        return oneflow.where(value >= 0, inside, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        return 2 / math.pi * (self._checked(value) / self.scale).atan()

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * value / 2).tan() * self.scale

    def entropy(self) -> Tensor:
        return math.log(2 * math.pi) + self.scale.log()


class Weibull(Distribution):
    """The Weibull distribution.

    Args:
        scale: above 0.
        concentration: the shape, above 0.

    Example::

        >>> oneflow.distributions.Weibull(1.0, 1.0).mean
        tensor(1.)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameters = {"scale": 0, "concentration": 0}

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + self.concentration.reciprocal()).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k).pow(k.reciprocal())

    @property
    def variance(self) -> Tensor:
        k = self.concentration.reciprocal()
        return self.scale.square() * ((1 + 2 * k).lgamma().exp() - (2 * (1 + k).lgamma()).exp())

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        e = oneflow.empty(shape, dtype=self.scale.dtype, device=self.scale.device).exponential_()
        return self.scale * e.pow(self.concentration.reciprocal())

    def log_prob(self, value: Tensor) -> Tensor:
        ratio = self._checked(value) / self.scale
        k = self.concentration
        return k.log() - self.scale.log() + (k - 1) * ratio.log() - ratio.pow(k)

    def cdf(self, value: Tensor) -> Tensor:
        return -(-(self._checked(value) / self.scale).pow(self.concentration)).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return self.scale * (-(-value).log1p()).pow(self.concentration.reciprocal())

    def entropy(self) -> Tensor:
        k = self.concentration.reciprocal()
        return 0.57721566490153286060 * (1 - k) + (self.scale * k).log() + 1


class Pareto(Distribution):
    """The Pareto distribution.

    Args:
        scale: the least value, above 0.
        alpha: above 0.

    Example::

        >>> oneflow.distributions.Pareto(1.0, 2.0).mean
        tensor(2.)
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    has_rsample = True
    _parameters = {"scale": 0, "alpha": 0}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        return oneflow.where(self.alpha > 1, self.alpha * self.scale / (self.alpha - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha
        return oneflow.where(a > 2, self.scale.square() * a / ((a - 1).square() * (a - 2)), math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        e = oneflow.empty(shape, dtype=self.scale.dtype, device=self.scale.device).exponential_()
        return self.scale * (e / self.alpha).exp()

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        return self.alpha.log() + self.alpha * self.scale.log() - (self.alpha + 1) * value.log()

    def cdf(self, value: Tensor) -> Tensor:
        return 1 - (self.scale / self._checked(value)).pow(self.alpha)

    def icdf(self, value: Tensor) -> Tensor:
        return self.scale * (1 - value).pow(-self.alpha.reciprocal())

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class GeneralizedPareto(Distribution):
    """The generalized Pareto distribution.

    Args:
        loc: the least value.
        scale: above 0.
        concentration: the shape; at 0 the distribution is exponential.

    Example::

        >>> oneflow.distributions.GeneralizedPareto(0.0, 1.0, 0.5).mean
        tensor(2.)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    _parameters = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, oneflow.where(self.concentration < 0, end, math.inf))

    @property
    def _shape_or_one(self) -> tuple[Tensor, Tensor]:
        """Where the shape is near 0, and the shape with 1 there."""
        near = self.concentration.abs() < 1e-7
        return near, oneflow.where(near, 1.0, self.concentration)

    @property
    def mean(self) -> Tensor:
        k = self.concentration
        return oneflow.where(k < 1, self.loc + self.scale / (1 - k), math.inf)

    @property
    def variance(self) -> Tensor:
        k = self.concentration
        return oneflow.where(k < 0.5, self.scale.square() / ((1 - k).square() * (1 - 2 * k)), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = oneflow.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.icdf(u)

    def log_prob(self, value: Tensor) -> Tensor:
        z = (self._checked(value) - self.loc) / self.scale
        near, k = self._shape_or_one
        return oneflow.where(near, -z, -(1 + 1 / k) * (k * z).log1p()) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        z = (self._checked(value) - self.loc) / self.scale
        near, k = self._shape_or_one
        return oneflow.where(near, -(-z).expm1(), -(-(k * z).log1p() / k).expm1())

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Logarithm of the probability of more than ``value``."""
        z = (self._checked(value) - self.loc) / self.scale
        near, k = self._shape_or_one
        return oneflow.where(near, -z, -(k * z).log1p() / k)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Logarithm of the probability of ``value`` or less."""
        return (-self.log_survival_function(value).exp()).log1p()

    def icdf(self, value: Tensor) -> Tensor:
        e = -(-value).log1p()
        near, k = self._shape_or_one
        return self.loc + self.scale * oneflow.where(near, e, (k * e).expm1() / k)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1


class Kumaraswamy(Distribution):
    """The Kumaraswamy distribution on [0, 1].

    Args:
        concentration1, concentration0: above 0.

    Example::

        >>> oneflow.distributions.Kumaraswamy(1.0, 1.0).mean
        tensor(0.5000)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _parameters = {"concentration1": 0, "concentration0": 0}

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        b = self.concentration0
        r = 1 + n / self.concentration1
        return (b.log() + r.lgamma() + b.lgamma() - (r + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        value = ((a - 1) / (a * b - 1)).pow(1 / a)
        return oneflow.where((a < 1) | (b < 1), math.nan, value)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        a, b = self.concentration1, self.concentration0
        u = oneflow.rand(shape, dtype=a.dtype, device=a.device)
        eps = oneflow.finfo(a.dtype).eps
        u = u.clamp(min=oneflow.finfo(a.dtype).tiny, max=1 - eps / 2)
        return (1 - u.pow(1 / b)).clamp(min=oneflow.finfo(a.dtype).tiny).pow(1 / a)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        a, b = self.concentration1, self.concentration0
        return a.log() + b.log() + (a - 1) * value.log() + (b - 1) * (-value.pow(a)).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return 1 - (1 - self._checked(value).pow(self.concentration1)).pow(self.concentration0)

    def icdf(self, value: Tensor) -> Tensor:
        return (1 - (1 - value).pow(1 / self.concentration0)).pow(1 / self.concentration1)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + 0.57721566490153286060
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - a.log() - b.log()
