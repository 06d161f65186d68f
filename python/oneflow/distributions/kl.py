"""Kullback and Leibler's divergence of one distribution from another, by pairs of classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.distributions import _kl_families
from oneflow.distributions.categorical import (
    Bernoulli,
    Binomial,
    Categorical,
    ContinuousBernoulli,
    Geometric,
    OneHotCategorical,
    Poisson,
)
from oneflow.distributions.distribution import Distribution, ExponentialFamily
from oneflow.distributions.gamma import Beta, Dirichlet, Exponential, Gamma, HalfNormal, InverseGamma, Pareto
from oneflow.distributions.multivariate_normal import LowRankMultivariateNormal, MultivariateNormal, _mahalanobis
from oneflow.distributions.normal import Cauchy, Gumbel, Laplace, Normal, Uniform
from oneflow.distributions.transformed_distribution import Independent, TransformedDistribution
from oneflow.distributions.utils import _sum_rightmost

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}
_EULER = 0.57721566490153286060


def register_kl(type_p: type, type_q: type) -> Callable[[Callable[[Any, Any], Tensor]], Callable[[Any, Any], Tensor]]:
    """Decorate the formula for a pair of classes; subclasses inherit it.

    Example::

        >>> class Sure(oneflow.distributions.Normal):
        ...     pass
        >>> @register_kl(Sure, Sure)
        ... def formula(p, q):
        ...     return oneflow.zeros(p.batch_shape)
        >>> kl_divergence(Sure(0.0, 1.0), Sure(1.0, 1.0))
        tensor(0.)
    """
    for kind, name in ((type_p, "type_p"), (type_q, "type_q")):
        # Classes of packages that only behave as distributions take part too.
        if not isinstance(kind, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def keep(formula: Callable[[Any, Any], Tensor]) -> Callable[[Any, Any], Tensor]:
        _KL_REGISTRY[type_p, type_q] = formula
        return formula

    return keep


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The mean under ``p`` of ``log p - log q``, of ``batch_shape``.

    Raises:
        NotImplementedError: there is no formula for the pair.

    Example::

        >>> d = oneflow.distributions
        >>> d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0))
        tensor(0.5000)
    """
    best: tuple[int, Any] | None = None
    for (kind_p, kind_q), formula in _KL_REGISTRY.items():
        if isinstance(p, kind_p) and isinstance(q, kind_q):
            distance = type(p).__mro__.index(kind_p) + type(q).__mro__.index(kind_q)
            if best is None or distance < best[0]:
                best = distance, formula
    if best is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return best[1](p, q)


def _infinite(like: Tensor) -> Tensor:
    return oneflow.full_like(like, math.inf)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    soft = oneflow.nn.functional.softplus
    t1 = p.probs * (soft(-q.logits) - soft(-p.logits))
    t1 = oneflow.where(q.probs == 0, math.inf, t1)
    t1 = oneflow.where(p.probs == 0, 0.0, t1)
    t2 = (1 - p.probs) * (soft(q.logits) - soft(p.logits))
    t2 = oneflow.where(q.probs == 1, math.inf, t2)
    return t1 + oneflow.where(p.probs == 1, 0.0, t2)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Tensor:
    sum_p, sum_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    t1 = q.concentration1.lgamma() + q.concentration0.lgamma() + sum_p.lgamma()
    t2 = p.concentration1.lgamma() + p.concentration0.lgamma() + sum_q.lgamma()
    t3 = (p.concentration1 - q.concentration1) * p.concentration1.digamma()
    t4 = (p.concentration0 - q.concentration0) * p.concentration0.digamma()
    return t1 - t2 + t3 + t4 + (sum_q - sum_p) * sum_p.digamma()


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    value = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return oneflow.where(p.total_count > q.total_count, math.inf, value)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    t = oneflow.where((q.probs == 0).expand(t.shape), math.inf, t)
    return oneflow.where((p.probs == 0).expand(t.shape), 0.0, t).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Tensor:
    t1 = p.mean * (p.logits - q.logits)
    t2 = p._log_norm() + (-p.probs).log1p()
    return t1 + t2 - q._log_norm() - (-q.probs).log1p()


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    t1 = total.lgamma() - b.sum(-1).lgamma()
    t2 = (a.lgamma() - b.lgamma()).sum(-1)
    return t1 - t2 + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    t1 = q.concentration * (p.rate / q.rate).log()
    t2 = q.concentration.lgamma() - p.concentration.lgamma()
    t3 = (p.concentration - q.concentration) * p.concentration.digamma()
    return t1 + t2 + t3 + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(InverseGamma, InverseGamma)
def _inverse_gamma(p: Any, q: Any) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return -q.concentration * ratio.log() + ratio + q.concentration.lgamma() + q.concentration * _EULER - (1 + _EULER)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    apart_q, apart_p = q.loc / q.scale, p.loc / q.scale
    t3 = (apart_q + (1 + ratio).lgamma() - apart_p).exp()
    return apart_p - apart_q - ratio.log() + ratio * _EULER + t3 - (1 + _EULER)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio - 1 - ratio.log())


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    apart = (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    t1 = ((p.scale + q.scale).square() + (p.loc - q.loc).square()).log()
    return t1 - (4 * p.scale * q.scale).log()


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    value = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return oneflow.where(p.support.lower_bound < q.support.lower_bound, math.inf, value)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    value = ((q.high - q.low) / (p.high - p.low)).log()
    return oneflow.where((q.low > p.low) | (q.high < p.high), math.inf, value)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    t1 = (math.sqrt(2 * math.pi) * q.scale / width).log()
    middle = ((p.high + p.low - 2 * q.loc) / 2).square()
    return t1 + (width.square() / 12 + middle) / (2 * q.scale.square())


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Tensor:
    apart, ratio = (p.loc - q.loc) / q.scale, (p.scale / q.scale).square()
    t1 = (math.sqrt(2 * math.pi) * p.scale / q.scale).log()
    return -t1 + apart + (-apart + 0.5 * ratio).exp() - 0.5


@register_kl(Exponential, Normal)
def _exponential_normal(p: Any, q: Any) -> Tensor:
    rate = (p.rate * q.scale).square()
    t1 = 0.5 * (rate * 2 * math.pi).log()
    mean = p.rate.reciprocal()
    return t1 - 1 + (mean.square() - mean * q.loc + q.loc.square() / 2) / q.scale.square()


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    n = p.event_shape[0]
    shape = oneflow.broadcast_shapes(p.batch_shape, q.batch_shape)
    b = q._unbroadcasted_scale_tril.expand((*shape, n, n))
    a = p._unbroadcasted_scale_tril.expand((*shape, n, n))
    spread = oneflow.linalg.solve_triangular(b, a, upper=False).square().sum((-2, -1))
    apart = (q.loc - p.loc).expand((*shape, n))
    return q._half_log_det() - p._half_log_det() + 0.5 * (spread + _mahalanobis(b, apart) - n)


def _dense(d: Any) -> MultivariateNormal:
    if isinstance(d, MultivariateNormal):
        return d
    return MultivariateNormal(d.loc, scale_tril=d.scale_tril, validate_args=False)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: Any, q: Any) -> Tensor:
    return _multivariate(_dense(p), _dense(q))


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL between Independents with different reinterpreted_batch_ndims is not implemented")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL between TransformedDistributions with different transforms is not implemented")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Tensor:
    """Bregman's divergence of the normalizers."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    p_params = [t.detach().requires_grad_() for t in p._natural_params]
    with oneflow.enable_grad():
        p_normal = p._log_normalizer(*p_params)
        gradients = oneflow.autograd.grad(p_normal.sum(), p_params, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - p_normal
    for a, b, g in zip(p_params, q._natural_params, gradients, strict=True):
        term = (b - a) * g
        result = result - _sum_rightmost(term, term.dim() - len(p.batch_shape))
    return result


for _p, _q in _kl_families.PAIRS:
    register_kl(_p, _q)(_kl_families.divergence)


# Where q has no events that p has.
for _p, _q in (
    (Beta, Pareto),
    (ContinuousBernoulli, Pareto),
    (Exponential, ContinuousBernoulli),
    (Gamma, ContinuousBernoulli),
    (Gumbel, ContinuousBernoulli),
    (Laplace, ContinuousBernoulli),
    (Normal, ContinuousBernoulli),
    (Pareto, ContinuousBernoulli),
    (Poisson, Bernoulli),
    (Poisson, Binomial),
    (Normal, Beta),
    (Normal, Exponential),
    (Normal, Gamma),
    (Normal, Pareto),
    (Normal, Uniform),
    (Gumbel, Beta),
    (Gumbel, Exponential),
    (Gumbel, Gamma),
    (Gumbel, Pareto),
    (Gumbel, Uniform),
    (Laplace, Beta),
    (Laplace, Exponential),
    (Laplace, Gamma),
    (Laplace, Pareto),
    (Laplace, Uniform),
    (Exponential, Beta),
    (Exponential, Pareto),
    (Exponential, Uniform),
    (Gamma, Beta),
    (Gamma, Pareto),
    (Gamma, Uniform),
    (Pareto, Beta),
    (Pareto, Uniform),
):
    register_kl(_p, _q)(lambda p, q: _infinite(p.mean + q.mean))
