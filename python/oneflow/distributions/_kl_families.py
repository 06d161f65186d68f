"""KL divergences of pairs of different families: minus the entropy of ``p``, minus the mean of ``log q`` under ``p``.

A formula of ``q``'s log-density says which moments of ``p`` it needs; the moments that no property of a distribution
gives are below. Pairs of one class are in ``kl.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.distributions.categorical import ContinuousBernoulli
from oneflow.distributions.gamma import Beta, Exponential, Gamma, Pareto
from oneflow.distributions.normal import Gumbel, Laplace, Normal, Uniform


def _mean_of_log(p: Any) -> Tensor:
    """The mean of ``log x``."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return (oneflow.xlogy(p.high, p.high) - oneflow.xlogy(p.low, p.low)) / (p.high - p.low) - 1


def _mean_of_exp(p: Any, scale: Tensor, loc: Tensor) -> Tensor:
    """The mean of ``exp((loc - x) / scale)``."""
    if isinstance(p, Exponential):
        return (loc / scale).exp() * p.rate / (p.rate + scale.reciprocal())
    if isinstance(p, Gamma):
        return (loc / scale - p.concentration * (p.rate * scale).reciprocal().log1p()).exp()
    ends = ((loc - p.low) / scale).exp() - ((loc - p.high) / scale).exp()
    return ends * scale / (p.high - p.low)


def _log_exponential(p: Any, q: Any) -> Tensor:
    return q.rate.log() - q.rate * p.mean


def _log_gamma(p: Any, q: Any) -> Tensor:
    a, b = q.concentration, q.rate
    return a * b.log() - a.lgamma() + (a - 1) * _mean_of_log(p) - b * p.mean


def _log_normal(p: Any, q: Any) -> Tensor:
    spread = (p.variance + (p.mean - q.loc).square()) / (2 * q.scale.square())
    return -(math.sqrt(2 * math.pi) * q.scale).log() - spread


def _log_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    return p.mean * q.logits + (-q.probs).log1p() + q._log_norm()


def _log_uniform(p: Any, q: Any) -> Tensor:
    return -(q.high - q.low).log()


def _log_pareto(p: Any, q: Any) -> Tensor:
    return q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_of_log(p)


def _log_gumbel(p: Any, q: Any) -> Tensor:
    return -q.scale.log() - (p.mean - q.loc) / q.scale - _mean_of_exp(p, q.scale, q.loc)


def _uniform_in_beta(p: Any, q: Any) -> Tensor:
    a, b = q.concentration1, q.concentration0
    # The mean of log(1 - x) is that of log x, mirrored.
    mirrored = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    return (a + b).lgamma() - a.lgamma() - b.lgamma() + (a - 1) * _mean_of_log(p) + (b - 1) * _mean_of_log(mirrored)


def _normal_in_laplace(p: Any, q: Any) -> Tensor:
    apart = p.loc - q.loc
    ratio = apart / p.scale
    distance = math.sqrt(2 / math.pi) * p.scale * (-0.5 * ratio.square()).exp() + apart * (ratio * math.sqrt(0.5)).erf()
    return -(2 * q.scale).log() - distance / q.scale


def _outside(p: Any, q: Any) -> Tensor:
    """Whether ``p`` has events that ``q`` does not have; both bounds of both are tensors or numbers."""
    low_p, high_p = _bounds(p)
    low_q, high_q = _bounds(q)
    like = p.mean + q.mean
    below = oneflow.as_tensor(low_p, dtype=like.dtype) < oneflow.as_tensor(low_q, dtype=like.dtype)
    return below | (oneflow.as_tensor(high_p, dtype=like.dtype) > oneflow.as_tensor(high_q, dtype=like.dtype))


def _bounds(d: Any) -> tuple[Any, Any]:
    if isinstance(d, Uniform):
        return d.low, d.high
    if isinstance(d, (Beta, ContinuousBernoulli)):
        return 0.0, 1.0
    if isinstance(d, Pareto):
        return d.scale, math.inf
    return (0.0 if isinstance(d, (Exponential, Gamma)) else -math.inf), math.inf


PAIRS: dict[tuple[Any, Any], Callable[[Any, Any], Tensor]] = {
    (Beta, ContinuousBernoulli): _log_continuous_bernoulli,
    (Beta, Exponential): _log_exponential,
    (Beta, Gamma): _log_gamma,
    (Beta, Normal): _log_normal,
    (Beta, Uniform): _log_uniform,
    (ContinuousBernoulli, Exponential): _log_exponential,
    (ContinuousBernoulli, Normal): _log_normal,
    (ContinuousBernoulli, Uniform): _log_uniform,
    (Exponential, Gumbel): _log_gumbel,
    (Gamma, Exponential): _log_exponential,
    (Gamma, Gumbel): _log_gumbel,
    (Gamma, Normal): _log_normal,
    (Gumbel, Normal): _log_normal,
    (Laplace, Normal): _log_normal,
    (Normal, Laplace): _normal_in_laplace,
    (Pareto, Exponential): _log_exponential,
    (Pareto, Gamma): _log_gamma,
    (Pareto, Normal): _log_normal,
    (Uniform, Beta): _uniform_in_beta,
    (Uniform, ContinuousBernoulli): _log_continuous_bernoulli,
    (Uniform, Exponential): _log_exponential,
    (Uniform, Gamma): _log_gamma,
    (Uniform, Gumbel): _log_gumbel,
    (Uniform, Pareto): _log_pareto,
}


def divergence(p: Any, q: Any) -> Tensor:
    """The divergence for a pair of ``PAIRS``; infinite where ``q`` lacks events that ``p`` has."""
    for (kind_p, kind_q), mean_of_log_q in PAIRS.items():
        if isinstance(p, kind_p) and isinstance(q, kind_q):
            value = -p.entropy() - mean_of_log_q(p, q)
            return oneflow.where(_outside(p, q), math.inf, value)
    raise NotImplementedError(f"no formula for {type(p).__name__} and {type(q).__name__}")
