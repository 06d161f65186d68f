"""Kullback-Leibler divergences of every pair of classes for which PyTorch has a formula, and where supports differ."""

import itertools
import math

import numpy as np
import oneflow
import oneflow.distributions as ours
import pytest
import torch
import torch.distributions as theirs
from torch.distributions.kl import _KL_REGISTRY

# Two sets of arguments for each class; lists are tensors of a batch.
PLACES = ([0.3, -1.0], [1.5, 0.7]), ([0.9, 0.0], [0.4, 2.0])
POSITIVE = ([0.8, 2.5], [1.5, 0.7]), ([3.0, 0.6], [0.4, 2.0])
ARGUMENTS = {
    "Bernoulli": (([0.2, 0.6],), ([0.7, 0.5],)),
    "Beta": POSITIVE,
    "Binomial": ((4, [0.2, 0.6]), (4, [0.7, 0.5])),
    "Categorical": (([[0.2, 0.8]],), ([[0.5, 0.5]],)),
    "Cauchy": PLACES,
    "ContinuousBernoulli": (([0.2, 0.6],), ([0.7, 0.4],)),
    "Dirichlet": (([[0.8, 2.5]],), ([[1.5, 0.7]],)),
    "Exponential": (([0.8, 2.5],), ([1.5, 0.7],)),
    "Gamma": POSITIVE,
    "Geometric": (([0.2, 0.6],), ([0.7, 0.5],)),
    "Gumbel": PLACES,
    "HalfNormal": (([0.8, 2.5],), ([1.5, 0.7],)),
    "InverseGamma": POSITIVE,
    "Laplace": PLACES,
    "Normal": PLACES,
    "OneHotCategorical": (([[0.2, 0.8]],), ([[0.5, 0.5]],)),
    "Pareto": (([1.5, 0.2], [2.5, 3.0]), ([0.5, 0.1], [3.5, 4.0])),
    "Poisson": (([0.8, 2.5],), ([1.5, 0.7],)),
    "Uniform": (([0.1, 0.6], [0.9, 0.8]), ([-0.1, 0.5], [1.2, 0.9])),
}
REGISTERED = {(p.__name__, q.__name__) for p, q in _KL_REGISTRY} & set(itertools.product(ARGUMENTS, ARGUMENTS))
PAIRS = sorted(REGISTERED | {("InverseGamma", "InverseGamma")})


def made(framework, name, arguments):
    module = ours if framework is oneflow else theirs
    return getattr(module, name)(
        *(framework.tensor(a, dtype=framework.float64) if isinstance(a, list) else a for a in arguments)
    )


@pytest.mark.parametrize("p, q", PAIRS, ids=[f"{p}-{q}" for p, q in PAIRS])
def test_every_pair(p, q):
    for a, b in itertools.product(ARGUMENTS[p], ARGUMENTS[q]):
        wanted = theirs.kl_divergence(made(torch, p, a), made(torch, q, b))
        got = ours.kl_divergence(made(oneflow, p, a), made(oneflow, q, b))
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-12)


OUTSIDE = {
    "high": (("Uniform", ([0.5], [1.5])), ("Beta", ([2.0], [2.0]))),
    "low": (("Uniform", ([-0.5], [0.5])), ("Gamma", ([2.0], [2.0]))),
    "below a scale": (("Uniform", ([0.5], [2.0])), ("Pareto", ([0.6], [2.0]))),
    "narrower": (("Beta", ([2.0], [2.0])), ("Uniform", ([0.0], [0.9]))),
    "no mean": (("Pareto", ([1.0], [0.9])), ("Exponential", ([1.0],))),
    "no variance": (("Pareto", ([1.0], [1.9])), ("Normal", ([1.0], [1.0]))),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_infinite(case):
    p, q = (made(oneflow, *d) for d in OUTSIDE[case])
    assert ours.kl_divergence(p, q).item() == math.inf


def test_bounds_that_are_the_same():
    """The divergence from a uniform distribution on the same bounds is finite: minus the entropy, by a sum."""
    p = ours.ContinuousBernoulli(oneflow.tensor([0.3], dtype=oneflow.float64))
    x = (oneflow.arange(20000, dtype=oneflow.float64) + 0.5) / 20000
    wanted = (p.log_prob(x).exp() * p.log_prob(x)).mean()
    assert ours.kl_divergence(p, made(oneflow, "Uniform", ([0.0], [1.0]))).item() == pytest.approx(
        wanted.item(), rel=1e-6
    )
