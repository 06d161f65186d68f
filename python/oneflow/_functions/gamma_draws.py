"""Samples of gamma and Dirichlet distributions, with gradients with respect to the concentration."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.autograd import Function


def standard_gamma(concentration: Tensor) -> Tensor:
    """Sample a gamma distribution of rate one; differentiable with respect to the concentration."""
    return _StandardGamma.apply(concentration)


def dirichlet(concentration: Tensor) -> Tensor:
    """Sample a Dirichlet distribution over the last dimension; differentiable with respect to the concentration."""
    return _Dirichlet.apply(concentration)


# PyTorch's name, which torchvision asks for.
_sample_dirichlet = dirichlet


class _StandardGamma(Function):
    """A draw's gradient at a fixed level of its distribution function, ``-(dF/da) / p`` (Figurnov et al., 2018)."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        drawn = oneflow._oneflow._standard_gamma(concentration)
        ctx.save_for_backward(concentration, drawn)
        return drawn

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        concentration, drawn = ctx.saved_tensors
        return gradient * gamma_slope(concentration, drawn)


class _Dirichlet(Function):
    """A draw's gradient, each share moving at a fixed level of its own (beta) distribution function.

    The other shares make room in proportion to their sizes (Jankowiak and Obermeyer, 2018).
    """

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        a, bounds = concentration, oneflow.finfo(concentration.dtype)
        if oneflow.default_generator.engine == "mt19937":
            # PyTorch's draws, in its order.
            parts = oneflow._oneflow._standard_gamma(a.double())
            drawn = (parts / parts.sum(-1, True)).to(a.dtype).clamp(bounds.tiny, 1 - bounds.eps / 2)
            ctx.save_for_backward(concentration, drawn)
            return drawn
        # A sample of a small concentration underflows; one of a concentration larger by one, times a power, does not.
        log_u = oneflow.rand(a.shape, dtype=a.dtype, device=a.device).clamp(min=bounds.tiny).log()
        log_gamma = standard_gamma(a + 1).log() + log_u / a
        drawn = log_gamma.softmax(-1).clamp(bounds.tiny, 1 - bounds.eps / 2)
        ctx.save_for_backward(concentration, drawn)
        return drawn

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        a, x = ctx.saved_tensors
        rest = a.sum(-1, True) - a
        return beta_slope(a, rest, x) * (gradient - (x * gradient).sum(-1, True))


@functools.cache
def _nodes(n: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights of Gauss and Legendre on [0, 1], from the eigenvalues of the Jacobi matrix."""
    k = oneflow.arange(1, n, dtype=oneflow.float64)
    off_diagonal = k / (4 * k * k - 1).sqrt()
    values, vectors = oneflow.linalg.eigh(off_diagonal.diag(1) + off_diagonal.diag(-1))
    return (values + 1) / 2, vectors[0].square()


def gamma_slope(a: Tensor, z: Tensor) -> Tensor:
    """How a draw ``z`` of concentration ``a`` moves with ``a``.

    With p the density and F the distribution function, ``dF/da`` is the integral of ``p(t) (log t - digamma(a))`` up to
    z, and the negated one from z on. The side is taken where the integrand falls away from z, so nothing cancels; in
    ``w = |log(t / z)|`` it is smooth, and a rule of fixed order reaches the precision of the dtype.
    """
    with oneflow.no_grad():
        x, weights = (t.to(a.device) for t in _nodes(48))
        a64, z64 = a.double().unsqueeze(-1), z.double().clamp(min=1e-300).unsqueeze(-1)
        side = oneflow.where(z64 > a64, 1.0, -1.0).double()

        def exponent(w: Tensor) -> Tensor:
            return side * a64 * w - z64 * (side * w).expm1()

        end = _support(exponent, 1 / (a64 + z64).sqrt())
        w = end * x
        integral = (exponent(w).exp() * (z64.log() + side * w - a64.digamma()) * weights).sum(-1) * end.squeeze(-1)
        return (side.squeeze(-1) * z64.squeeze(-1) * integral).to(a.dtype)


def _support(exponent: Callable[[Tensor], Tensor], end: Tensor) -> Tensor:
    """Where the integrand has fallen to e^-38, by doubling ``end``."""
    for _ in range(80):
        short = exponent(end) > -38.0
        if not bool(short.any()):
            break
        end = oneflow.where(short, end * 2, end)
    return end


def beta_slope(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """How a draw ``x`` of the beta distribution of ``a`` and ``b`` moves with ``a``, divided by ``1 - x``.

    The integral of ``p(t) (log t - digamma(a) + digamma(a + b))`` as in :func:`gamma_slope`: below the mean from 0 on,
    in ``w = log(x / t)``; above it up to 1, in ``w = log((1 - x) / (1 - t))``. A small concentration makes a long tail
    with its details at the start, where the nodes are dense.
    """
    with oneflow.no_grad():
        u, weights = (t.to(a.device) for t in _nodes(64))
        u, weights = u**3, weights * 3 * u.square()
        a64, b64, x64 = (t.double().unsqueeze(-1) for t in (a, b, x))
        below = x64 * (a64 + b64) <= a64
        # The side's own concentration and share, and those of the other side.
        own, other = oneflow.where(below, a64, b64), oneflow.where(below, b64, a64)
        share = oneflow.where(below, x64, 1 - x64)

        def exponent(w: Tensor) -> Tensor:
            return (other - 1) * ((-share * (-w).exp()).log1p() - (-share).log1p()) - own * w

        end = _support(exponent, 1 / (own + other).sqrt())
        w = end * u
        log_t = oneflow.where(below, x64.log() - w, (-share * (-w).exp()).log1p())
        terms = exponent(w).exp() * (log_t - a64.digamma() + (a64 + b64).digamma())
        integral = (terms * weights).sum(-1) * end.squeeze(-1)
        x64 = x64.squeeze(-1)
        return oneflow.where(below.squeeze(-1), -integral * x64 / (1 - x64), integral).to(a.dtype)
