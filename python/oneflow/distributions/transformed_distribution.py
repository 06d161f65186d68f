"""Distributions derived from others: transformed, grouped, mixed, relaxed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Size, Tensor
from oneflow.distributions import constraints
from oneflow.distributions.categorical import Categorical, _Binary
from oneflow.distributions.distribution import Distribution
from oneflow.distributions.normal import Normal
from oneflow.distributions.transforms import (
    ComposeTransform,
    ExpTransform,
    SigmoidTransform,
    StickBreakingTransform,
    Transform,
)
from oneflow.distributions.utils import _sum_rightmost, broadcast_all, clamp_probs, tensor_like


class Independent(Distribution):
    """Another distribution with some of its batch as one event.

    Args:
        base_distribution: the other one.
        reinterpreted_batch_ndims: how many of its last batch dimensions belong to the event.

    Example::

        >>> oneflow.distributions.Independent(oneflow.distributions.Normal(oneflow.zeros(3), oneflow.ones(3)),
        ...     1).event_shape
        oneflow.Size([3])
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        n = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > n:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {n}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = n - reinterpreted_batch_ndims
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def _expand_into(self, new: Any, shape: Size) -> None:
        new.base_dist = self.base_dist.expand(shape + self.event_shape[: self.reinterpreted_batch_ndims])
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        region = self.base_dist.support
        n = self.reinterpreted_batch_ndims
        return constraints.independent(region, n) if n else region

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """A distribution whose events are mapped.

    Args:
        base_distribution: the one to draw from.
        transforms: a map, or several, the first one first.

    Raises:
        ValueError: a map has no such events.

    Example::

        >>> oneflow.distributions.TransformedDistribution(oneflow.distributions.Normal(0.0, 1.0),
        ...     [oneflow.distributions.ExpTransform()]).log_prob(oneflow.tensor(1.0))
        tensor(-0.9189)
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(transforms, (Transform, Sequence)):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError("transforms must be a Transform or list, but was another thing")
        shape = base_distribution.batch_shape + base_distribution.event_shape
        event_dims = len(base_distribution.event_shape)
        whole = ComposeTransform(self.transforms)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.domain.event_dim}, but got {shape}."
            )
        out = whole.forward_shape(shape)
        wide = base_distribution.expand(whole.inverse_shape(out)[: len(out) - event_dims + len(shape) - len(out)])
        grouped = whole.domain.event_dim - len(wide.event_shape)
        self.base_dist: Any = Independent(wide, grouped) if grouped > 0 else wide
        change = whole.codomain.event_dim - whole.domain.event_dim
        n_event = max(whole.codomain.event_dim, len(self.base_dist.event_shape) + change)
        cut = len(out) - n_event
        super().__init__(out[:cut], out[cut:], validate_args=validate_args)

    def _expand_into(self, new: Any, shape: Size) -> None:
        new.transforms = self.transforms
        whole = ComposeTransform(self.transforms)
        wanted = whole.inverse_shape(shape + self.event_shape)
        new.base_dist = self.base_dist.expand(wanted[: len(wanted) - len(self.base_dist.event_shape)])

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        region = self.transforms[-1].codomain
        n = len(self.event_shape) - region.event_dim
        return constraints.independent(region, n) if n > 0 else region

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with oneflow.no_grad():
            return self._mapped(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._mapped(self.base_dist.rsample(sample_shape))

    def _mapped(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        y = self._checked(value)
        dims = len(self.event_shape)
        result: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            stretch = transform.log_abs_det_jacobian(x, y)
            result = result - _sum_rightmost(stretch, dims - transform.domain.event_dim)
            y = x
        return result + _sum_rightmost(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape))

    def _turned(self, value: Tensor) -> Tensor:
        """Return a value of the distribution function, mirrored if the transforms decrease."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._turned(self.base_dist.cdf(self._validated_base(value)))

    def _validated_base(self, value: Tensor) -> Tensor:
        return value

    def icdf(self, value: Tensor) -> Tensor:
        return self._mapped(self.base_dist.icdf(self._turned(value)))


class LogNormal(TransformedDistribution):
    """The distribution of ``exp`` of a normal number.

    Args:
        loc, scale: mean and standard deviation of the logarithm.

    Example::

        >>> oneflow.distributions.LogNormal(0.0, 1.0).mean
        tensor(1.6487)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        s = self.scale.square()
        return s.expm1() * (2 * self.loc + s).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """Shares computed from normal numbers by breaking a stick.

    Args:
        loc, scale: (*, n), of the normal numbers; the shares are n + 1.

    Example::

        >>> oneflow.distributions.LogisticNormal(oneflow.zeros(2), oneflow.ones(2)).sample().shape
        oneflow.Size([3])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The normal numbers' means."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The normal numbers' standard deviations."""
        return self.base_dist.base_dist.scale


class LogitRelaxedBernoulli(_Binary):
    """The log odds of :class:`RelaxedBernoulli`.

    Args:
        temperature: how soft, above 0.
        probs, logits: as for :class:`Bernoulli`.

    Example::

        >>> from oneflow.distributions.transformed_distribution import LogitRelaxedBernoulli
        >>> LogitRelaxedBernoulli(oneflow.tensor(0.5), probs=oneflow.tensor([0.2, 0.8])).rsample().shape
        oneflow.Size([2])
    """

    support = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(self._take(probs, logits).shape, validate_args=validate_args)

    def _expand_into(self, new: Any, shape: Size) -> None:
        super()._expand_into(new, shape)
        new.temperature = self.temperature

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(oneflow.rand(shape, dtype=probs.dtype, device=probs.device))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        apart = logits - value * self.temperature
        temperature = self.temperature
        known = temperature.log() if isinstance(temperature, Tensor) else math.log(temperature)
        return known + apart - 2 * apart.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """A number in (0, 1) near zero or one, through which gradients pass. Arguments as for its log odds.

    Example::

        >>> oneflow.distributions.RelaxedBernoulli(oneflow.tensor(1.0), probs=oneflow.tensor(0.5)).sample().shape
        oneflow.Size([])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """How soft."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities of one."""
        return self.base_dist.probs


class ExpRelaxedCategorical(Distribution):
    """The logarithms of :class:`RelaxedOneHotCategorical` (Maddison et al., "The Concrete Distribution", 2017).

    Example::

        >>> from oneflow.distributions.transformed_distribution import ExpRelaxedCategorical
        >>> drawn = ExpRelaxedCategorical(oneflow.tensor(0.5), probs=oneflow.tensor([0.2, 0.3, 0.5])).rsample()
        >>> oneflow.allclose(drawn.exp().sum(), oneflow.tensor(1.0))
        True
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def _expand_into(self, new: Any, shape: Size) -> None:
        new.temperature = self.temperature
        new._categorical = self._categorical.expand(shape)

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(oneflow.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        k = self._categorical._num_events
        logits, value = broadcast_all(self.logits, self._checked(value))
        t = tensor_like(self.temperature, logits)
        score = logits - value * t
        score = (score - score.logsumexp(-1, keepdim=True)).sum(-1)
        return score + math.lgamma(k) + (k - 1) * t.log()


class RelaxedOneHotCategorical(TransformedDistribution):
    """Shares near a row with a single one, through which gradients pass.

    Args:
        temperature: how soft, above 0.
        probs, logits: as for :class:`Categorical`.

    Example::

        >>> oneflow.distributions.RelaxedOneHotCategorical(oneflow.tensor(1.0), oneflow.ones(3)).sample().shape
        oneflow.Size([3])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """How soft."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self.base_dist.probs


class MixtureSameFamily(Distribution):
    """A mixture of distributions of one kind.

    Args:
        mixture_distribution: a :class:`Categorical` over the components.
        component_distribution: the components along the last dimension of its batch.

    Example::

        >>> oneflow.distributions.MixtureSameFamily(oneflow.distributions.Categorical(oneflow.ones(2)),
        ...     oneflow.distributions.Normal(oneflow.tensor([0.0, 2.0]), oneflow.ones(2))).mean
        tensor(1.)
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError("The Mixture distribution needs to be an instance of oneflow.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of oneflow.distributions.Distribution")
        shape = component_distribution.batch_shape[:-1]
        for a, b in zip(reversed(mixture_distribution.batch_shape), reversed(shape), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture_distribution.batch_shape}) is not compatible with "
                    f"`component_distribution.batch_shape`({shape})"
                )
        n = mixture_distribution.logits.shape[-1]
        if n != component_distribution.batch_shape[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({n}) does not equal `component_distribution.batch_shape[-1]` "
                f"({component_distribution.batch_shape[-1]})"
            )
        self._num_component = n
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        super().__init__(shape, component_distribution.event_shape, validate_args=validate_args)

    def _expand_into(self, new: Any, shape: Size) -> None:
        new._component_distribution = self._component_distribution.expand((*shape, self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(shape)
        new._num_component = self._num_component

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The distribution of the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape(*probs.shape, *([1] * len(self._event_shape)))

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self._component_distribution.mean).sum(-1 - len(self._event_shape))

    @property
    def variance(self) -> Tensor:
        dim = -1 - len(self._event_shape)
        within = (self._weights() * self._component_distribution.variance).sum(dim)
        apart = (self._component_distribution.mean - self.mean.unsqueeze(dim)).square()
        return within + (self._weights() * apart).sum(dim)

    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value).unsqueeze(-1 - len(self._event_shape))
        return (self._component_distribution.cdf(value) * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value).unsqueeze(-1 - len(self._event_shape))
        each = self._component_distribution.log_prob(value)
        return (each + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with oneflow.no_grad():
            choice = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            dim = len(sample_shape) + len(self._batch_shape)
            ones = [1] * (len(self._event_shape) + 1)
            index = choice.reshape(*choice.shape, *ones).expand(*choice.shape, 1, *self._event_shape)
            return drawn.gather(dim, index).squeeze(dim)
