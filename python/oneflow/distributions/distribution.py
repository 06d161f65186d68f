"""The base of all distributions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Size, Tensor
from oneflow.distributions import constraints
from oneflow.distributions.utils import lazy_property

__all__ = ["Distribution", "ExponentialFamily"]


class Distribution:
    """A batch of distributions of events.

    Args:
        batch_shape: how many there are.
        event_shape: the shape of one event.
        validate_args: check parameters and values; by default the setting of :meth:`set_default_validate_args`, True.

    Raises:
        ValueError: a parameter lies outside its region.

    Example::

        >>> isinstance(oneflow.distributions.Normal(0.0, 1.0), oneflow.distributions.Distribution)
        True
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Return whether parameters and values are checked from now on."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        try:
            regions = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}`.", stacklevel=3
            )
            return
        for name, region in regions.items():
            computed = name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(region) or computed:
                continue
            value = getattr(self, name)
            if not bool(region.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {region!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions, more of them, without copies."""
        new = self._get_checked_instance(Distribution, _instance)
        shape = Size(batch_shape)
        self._expand_into(new, shape)
        Distribution.__init__(new, shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    # Parameters that `expand` expands: their names, with the number of event dimensions each has.
    _parameters: dict[str, int] = {}

    def _expand_into(self, new: Any, shape: Size) -> None:
        if not self._parameters:
            raise NotImplementedError(f"{type(self).__name__}.expand")
        for name, dims in self._parameters.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                setattr(new, name, value.expand(shape + value.shape[value.dim() - dims :]))

    @property
    def batch_shape(self) -> Size:
        """How many distributions there are."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one event."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The regions of the parameters."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The region of the events."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The most likely event."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw events: ``sample_shape + batch_shape + event_shape``, without a gradient."""
        with oneflow.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw events through which gradients reach the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """``sample((n,))``."""
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the probability or its density at ``value``."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of events up to ``value``."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """Return the event for which :meth:`cdf` returns ``value``."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All events, along a new first dimension."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """``exp(entropy)``."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size(tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape))

    def _validate_sample(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        n = len(self._event_shape)
        if tuple(value.shape[value.dim() - n :]) != tuple(self._event_shape):
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        wanted = (*self._batch_shape, *self._event_shape)
        for have, want in zip(reversed(value.shape), reversed(wanted), strict=False):
            if have != 1 and want != 1 and have != want:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {Size(wanted)}."
                )
        try:
            region = self.support
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define `support` to enable sample validation.", stacklevel=3)
            return
        if region is None:
            raise AssertionError("support is None")
        if not bool(region.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({region!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _checked(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return value

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        return type(self).__new__(type(self)) if _instance is None else _instance

    def __repr__(self) -> str:
        shown = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                one = isinstance(value, Tensor) and value.numel() == 1
                shown.append(f"{name}: {value if one or not isinstance(value, Tensor) else value.size()}")
        return f"{type(self).__name__}({', '.join(shown)})"


class ExponentialFamily(Distribution):
    """Distributions whose log density is a product of parameters and statistics, less a normalizer.

    The entropy comes from derivatives of the normalizer if a class defines :attr:`_natural_params`,
    :meth:`_log_normalizer` and :attr:`_mean_carrier_measure`.

    Example::

        >>> isinstance(oneflow.distributions.Normal(0.0, 1.0), oneflow.distributions.ExponentialFamily)
        True
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        params = [p.detach().requires_grad_() for p in self._natural_params]
        with oneflow.enable_grad():
            normalizer = self._log_normalizer(*params)
            gradients: Sequence[Tensor] = oneflow.autograd.grad(normalizer.sum(), params, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for param, gradient in zip(params, gradients, strict=True):
            result = result - (param * gradient).reshape(*self._batch_shape, -1).sum(-1)
        return result
