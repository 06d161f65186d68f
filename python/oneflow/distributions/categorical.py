"""Distributions of counts and choices."""

from __future__ import annotations

import math
from typing import Any

import oneflow
from oneflow import Size, Tensor
from oneflow.distributions import constraints
from oneflow.distributions.distribution import Distribution, ExponentialFamily
from oneflow.distributions.utils import (
    binary_cross_entropy,
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    tensor_like,
)


class _Binary(Distribution):
    """Distributions parametrized by a probability or by log odds; one of the two is given."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    _parameters = {"probs": 0, "logits": 0}

    def _take(self, probs: Any, logits: Any) -> Tensor:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
            return self.probs
        (self.logits,) = broadcast_all(logits)
        return self.logits

    @lazy_property
    def logits(self) -> Tensor:
        """Log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.shape

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.logits


class Bernoulli(_Binary, ExponentialFamily):
    """Zero or one.

    Args:
        probs: the probability of one; or
        logits: its log odds.

    Example::

        >>> oneflow.distributions.Bernoulli(oneflow.tensor(0.5)).entropy()
        tensor(0.6931)
    """

    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._take(probs, logits).shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return oneflow.where(self.probs == 0.5, math.nan, mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with oneflow.no_grad():
            return oneflow.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        return -binary_cross_entropy(logits, value)

    def entropy(self) -> Tensor:
        return binary_cross_entropy(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = oneflow.arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape(-1, *([1] * len(self._batch_shape)))
        return values.expand(-1, *self._batch_shape) if expand else values

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp().log1p()


class ContinuousBernoulli(_Binary):
    """A number in [0, 1] whose density is proportional to ``p**x * (1 - p)**(1 - x)`` (Loaiza-Ganem et al., 2019).

    Args:
        probs: in (0, 1); or
        logits: their log odds.
        lims: between these the formulas for a probability of a half are used.

    Example::

        >>> oneflow.distributions.ContinuousBernoulli(probs=0.5).mean
        tensor(0.5000)
    """

    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._take(probs, logits)
        if probs is not None:
            if (validate_args is None and self._validate_args) or validate_args:
                if not bool(self.arg_constraints["probs"].check(self.probs).all()):
                    raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(self._param.shape, validate_args=validate_args)

    def _expand_into(self, new: Any, shape: Size) -> None:
        super()._expand_into(new, shape)
        new._lims = self._lims

    def _split(self) -> tuple[Tensor, Tensor]:
        """Where the probability is not near a half, and the probability with another one there."""
        probs = clamp_probs(self.probs)
        far = (probs <= self._lims[0]) | (probs > self._lims[1])
        return far, oneflow.where(far, probs, self._lims[0])

    def _log_norm(self) -> Tensor:
        far, p = self._split()
        exact = ((-p).log1p() - p.log()).abs().log() - oneflow.where(
            p <= 0.5, (-2.0 * oneflow.where(p <= 0.5, p, 0.0)).log1p(), (2.0 * oneflow.where(p > 0.5, p, 1.0) - 1).log()
        )
        x = (self.probs - 0.5).square()
        return oneflow.where(far, exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        far, p = self._split()
        exact = p / (2.0 * p - 1.0) + 1.0 / ((-p).log1p() - p.log())
        x = self.probs - 0.5
        return oneflow.where(far, exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x)

    @property
    def variance(self) -> Tensor:
        far, p = self._split()
        exact = p * (p - 1.0) / (1.0 - 2.0 * p).square() + 1.0 / ((-p).log1p() - p.log()).square()
        x = (self.probs - 0.5).square()
        return oneflow.where(far, exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        p = self.probs
        return self.icdf(oneflow.rand(self._extended_shape(sample_shape), dtype=p.dtype, device=p.device))

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        return -binary_cross_entropy(logits, value) + self._log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        far, p = self._split()
        exact = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = oneflow.where(far, exact, value)
        return oneflow.where(value <= 0.0, 0.0, oneflow.where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        far, p = self._split()
        exact = ((-p + value * (2.0 * p - 1.0)).log1p() - (-p).log1p()) / (p.log() - (-p).log1p())
        return oneflow.where(far, exact, value)

    def entropy(self) -> Tensor:
        log0, log1 = (-self.probs).log1p(), self.probs.log()
        return self.mean * (log0 - log1) - self._log_norm() - log0


class Geometric(_Binary):
    """The number of failures before the first success.

    Args:
        probs: the probability of a success, in (0, 1]; or
        logits: its log odds.

    Example::

        >>> oneflow.distributions.Geometric(probs=0.5).mean
        tensor(1.)
    """

    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._take(probs, logits).shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            raise ValueError(
                f"Expected parameter probs of distribution {self!r} to be positive but found:\n{self.probs}"
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return oneflow.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with oneflow.no_grad():
            p = self.probs
            tiny = oneflow.finfo(p.dtype).tiny
            u = oneflow.rand(self._extended_shape(sample_shape), dtype=p.dtype, device=p.device).clamp(min=tiny)
            return (u.log() / (-p).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        value, probs = broadcast_all(self._checked(value), self.probs)
        sure = (probs == 1) & (value == 0)
        return value * (-oneflow.where(sure, 0.0, probs)).log1p() + probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy(self.logits, self.probs) / self.probs


class Binomial(_Binary):
    """The number of successes among ``total_count`` trials.

    Args:
        total_count: how many trials.
        probs: the probability of a success; or
        logits: its log odds.

    Example::

        >>> oneflow.distributions.Binomial(4, probs=0.5).mean
        tensor(2.)
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _parameters = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        given = self._take(probs, logits)
        count, given = broadcast_all(total_count, given)
        self.total_count = count.to(given.dtype)
        setattr(self, "probs" if probs is not None else "logits", given)
        super().__init__(given.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with oneflow.no_grad():
            return oneflow.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        n = self.total_count
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        # The log of the probability of no success, which never overflows and has its gradient at 0 too.
        return ways + value * self.logits + n * oneflow.nn.functional.logsigmoid(-self.logits)

    def entropy(self) -> Tensor:
        n = int(self.total_count.max())
        if not bool((self.total_count == n).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = int(self.total_count.max())
        if not bool((self.total_count == n).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        values = oneflow.arange(1 + n, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape(-1, *([1] * len(self._batch_shape)))
        return values.expand(-1, *self._batch_shape) if expand else values


class NegativeBinomial(_Binary):
    """The number of successes before ``total_count`` failures.

    Args:
        total_count: how many failures; any number above 0.
        probs: the probability of a success, below 1; or
        logits: its log odds.

    Example::

        >>> oneflow.distributions.NegativeBinomial(2, probs=0.5).mean
        tensor(2.)
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _parameters = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        given = self._take(probs, logits)
        count, given = broadcast_all(total_count, given)
        self.total_count = count.to(given.dtype)
        setattr(self, "probs" if probs is not None else "logits", given)
        super().__init__(given.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        from oneflow.distributions.gamma import Gamma

        with oneflow.no_grad():
            rate = Gamma(self.total_count, (-self.logits).exp(), validate_args=False).sample(sample_shape)
            return oneflow.poisson(rate)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        n = self.total_count
        log_sigmoid = oneflow.nn.functional.logsigmoid
        likely = n * log_sigmoid(-self.logits) + value * log_sigmoid(self.logits)
        normalizer = -(n + value).lgamma() + (1.0 + value).lgamma() + n.lgamma()
        return likely - oneflow.where(n + value == 0.0, 0.0, normalizer)


class Poisson(ExponentialFamily):
    """The Poisson distribution.

    Args:
        rate: the mean, at least 0.

    Example::

        >>> oneflow.distributions.Poisson(3.0).mean
        tensor(3.)
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _parameters = {"rate": 0}

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with oneflow.no_grad():
            return oneflow.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        rate, value = broadcast_all(self.rate, self._checked(value))
        return oneflow.xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp()


class Categorical(Distribution):
    """One of n choices, as its number.

    Args:
        probs: (*, n), at least 0; they are divided by their sum. Or
        logits: (*, n), logarithms of probabilities up to a constant.

    Example::

        >>> oneflow.distributions.Categorical(oneflow.tensor([1.0, 3.0])).probs
        tensor([0.2500, 0.7500])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _parameters = {"probs": 1, "logits": 1}

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given = probs if logits is None else logits
        assert given is not None
        if given.dim() < 1:
            raise ValueError(f"`{'probs' if logits is None else 'logits'}` parameter must be at least one-dimensional.")
        if logits is None:
            self.probs = given / given.sum(-1, keepdim=True)
        else:
            self.logits = given - given.logsumexp(-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    def _expand_into(self, new: Any, shape: Size) -> None:
        super()._expand_into(new, shape)
        new._num_events = self._num_events

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.logits

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.shape

    @property
    def mean(self) -> Tensor:
        return oneflow.full(self._extended_shape(), math.nan, dtype=self._param.dtype, device=self._param.device)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self.mean

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with oneflow.no_grad():
            n = Size(sample_shape).numel()
            rows = self.probs.reshape(-1, self._num_events)
            return oneflow.multinomial(rows, n, True).t().reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value).long().unsqueeze(-1)
        value, logits = oneflow.broadcast_tensors(value, self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=oneflow.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = oneflow.arange(self._num_events, device=self._param.device)
        values = values.reshape(-1, *([1] * len(self._batch_shape)))
        return values.expand(-1, *self._batch_shape) if expand else values


class OneHotCategorical(Distribution):
    """One of n choices, as a row with a single one. Arguments as for :class:`Categorical`.

    Example::

        >>> oneflow.distributions.OneHotCategorical(oneflow.ones(2)).mean
        tensor([0.5000, 0.5000])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def _expand_into(self, new: Any, shape: Size) -> None:
        new._categorical = self._categorical.expand(shape)

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._rows(self.probs.argmax(-1))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _rows(self, index: Tensor) -> Tensor:
        return oneflow.nn.functional.one_hot(index, self._event_shape[0]).to(self._categorical._param.dtype)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._rows(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        return self._categorical.log_prob(self._checked(value).max(-1)[1])

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = oneflow.eye(n, dtype=self._categorical._param.dtype, device=self._categorical._param.device)
        values = values.reshape(n, *([1] * len(self._batch_shape)), n)
        return values.expand(n, *self._batch_shape, n) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """:class:`OneHotCategorical` whose draws pass gradients to the probabilities as if they were these.

    Example::

        >>> oneflow.distributions.OneHotCategoricalStraightThrough(oneflow.ones(2)).rsample().sum()
        tensor(1.)
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self.sample(sample_shape)
        return drawn + (self.probs - self.probs.detach())


class Multinomial(Distribution):
    """How often each of n choices comes in ``total_count`` trials.

    Args:
        total_count: how many trials; one number.
        probs, logits: as for :class:`Categorical`.

    Example::

        >>> oneflow.distributions.Multinomial(4, oneflow.ones(2)).mean
        tensor([2., 2.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def _expand_into(self, new: Any, shape: Size) -> None:
        new.total_count = self.total_count
        new._categorical = self._categorical.expand(shape)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        counts = oneflow.nn.functional.one_hot(drawn, self._event_shape[0]).sum(0)
        return counts.to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        # No event of probability zero has to happen no times.
        logits = oneflow.where((value == 0) & (logits == -math.inf), 0.0, logits)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = tensor_like(float(self.total_count), self.probs)
        one = Binomial(self.total_count, probs=self.probs)
        counts = one.enumerate_support(expand=False)[1:]
        weights = one.log_prob(counts).exp()
        return n * self._categorical.entropy() - (n + 1).lgamma() + (weights * (counts + 1).lgamma()).sum((0, -1))
