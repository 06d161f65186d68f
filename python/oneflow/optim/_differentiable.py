"""Steps of optimizers as tensor formulas: with ``differentiable=True`` a step is recorded; gradients flow through it.

The same rules as those of the fused op, which has no gradient. Parameters and states are written in place: what was
made of them before keeps its meaning, and what is made of them after depends on gradients, states and learning rate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import oneflow
from oneflow import Tensor

# Parameter, gradient, states, options and numbers (lr, step and what a rule adds) to the new parameter and states.
Formula = Callable[[Tensor, Tensor, list[Tensor], Sequence[float], Sequence[Any]], tuple[Tensor, list[Tensor]]]


def update_(
    params: list[Tensor],
    grads: list[Tensor],
    states0: list[Tensor],
    states1: list[Tensor],
    states2: list[Tensor],
    *numbers: Tensor | None,
    rule: str,
    hyper: Sequence[float],
    maximize: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    **unused: Any,
) -> None:
    """Step all parameters by the rule, in place, with a history where gradients are enabled."""
    formula = _RULES[rule]
    lists = [states for states in (states0, states1, states2) if states]
    counted = [n.to(oneflow.float64) if isinstance(n, Tensor) and n.is_floating_point() else n for n in numbers]
    for param, grad, *states in zip(params, grads, *lists, strict=True):
        if grad_scale is not None:
            grad = grad / grad_scale
        # The formula may keep for its gradient what is written below.
        before = [state.clone() for state in states]
        made = formula(param.clone(), -grad if maximize else grad, before, hyper, counted)
        for old, new in zip((param, *states), (made[0], *made[1]), strict=True):
            if found_inf is not None:
                new = oneflow.where(found_inf > 0, old, new)
            old.copy_(new)


def _decayed(p: Tensor, g: Tensor, weight_decay: float) -> Tensor:
    return g + weight_decay * p if weight_decay else g


def _sgd(p: Tensor, g: Tensor, s: list[Tensor], h: Sequence[float], x: Sequence[Any]) -> tuple[Tensor, list[Tensor]]:
    return p - x[0] * _decayed(p, g, h[0]), []


def _sgd_momentum(
    p: Tensor, g: Tensor, s: list[Tensor], h: Sequence[float], x: Sequence[Any]
) -> tuple[Tensor, list[Tensor]]:
    weight_decay, momentum, dampening, nesterov, is_first = h
    g = _decayed(p, g, weight_decay)
    buffer = g.clone() if is_first else s[0] * momentum + g * (1 - dampening)
    return p - x[0] * (g + momentum * buffer if nesterov else buffer), [buffer]


def _moments(
    p: Tensor, g: Tensor, s: list[Tensor], h: Sequence[float], lr: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Parameter and gradient after decay, and both moments of the gradient."""
    beta1, beta2, _, weight_decay, decoupled = h[:5]
    if decoupled:
        p = p * (1 - lr * weight_decay)
    else:
        g = _decayed(p, g, weight_decay)
    return p, g, s[0] + (g - s[0]) * (1 - beta1), s[1] * beta2 + (1 - beta2) * g * g


def _adam(p: Tensor, g: Tensor, s: list[Tensor], h: Sequence[float], x: Sequence[Any]) -> tuple[Tensor, list[Tensor]]:
    lr, step = x[:2]
    corrected = h[5]
    p, g, m, v = _moments(p, g, s, h, lr)
    top = [oneflow.maximum(s[2], v)] if len(s) > 2 else []
    bias1 = 1 - h[0] ** step if corrected else 1.0
    bias2 = 1 - h[1] ** step if corrected else 1.0
    spread = (top or [v])[0].sqrt() / bias2**0.5 + h[2]
    return p - lr / bias1 * (m / spread), [m, v, *top]


def _nadam(p: Tensor, g: Tensor, s: list[Tensor], h: Sequence[float], x: Sequence[Any]) -> tuple[Tensor, list[Tensor]]:
    lr, step, product = x[:3]
    momentum_decay = h[5]
    p, g, m, v = _moments(p, g, s, h, lr)

    def mu_at(t: Any) -> Any:
        return h[0] * (1 - 0.5 * 0.96 ** (t * momentum_decay))

    mu, mu_next = mu_at(step), mu_at(step + 1)
    spread = (v / (1 - h[1] ** step)).sqrt() + h[2]
    p = p - lr * (1 - mu) / (1 - product) * (g / spread)
    return p - lr * mu_next / (1 - product * mu_next) * (m / spread), [m, v]


def _radam(p: Tensor, g: Tensor, s: list[Tensor], h: Sequence[float], x: Sequence[Any]) -> tuple[Tensor, list[Tensor]]:
    lr, step = x[:2]
    p, g, m, v = _moments(p, g, s, h, lr)
    powered = h[1] ** step
    limit = 2 / (1 - h[1]) - 1
    rho = float(limit - 2 * step * powered / (1 - powered))
    direction = m / (1 - h[0] ** step)
    if rho > 5:
        rect = ((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)) ** 0.5
        direction = direction * rect * (1 - powered) ** 0.5 / (v.sqrt() + h[2])
    return p - lr * direction, [m, v]


def _adamax(p: Tensor, g: Tensor, s: list[Tensor], h: Sequence[float], x: Sequence[Any]) -> tuple[Tensor, list[Tensor]]:
    beta1, beta2, eps, weight_decay = h
    lr, step = x[:2]
    g = _decayed(p, g, weight_decay)
    m, top = s[0] + (g - s[0]) * (1 - beta1), oneflow.maximum(s[1] * beta2, g.abs() + eps)
    return p - lr / (1 - beta1**step) * (m / top), [m, top]


def _adadelta(
    p: Tensor, g: Tensor, s: list[Tensor], h: Sequence[float], x: Sequence[Any]
) -> tuple[Tensor, list[Tensor]]:
    rho, eps, weight_decay = h
    g = _decayed(p, g, weight_decay)
    v = s[0] * rho + (1 - rho) * g * g
    delta = (s[1] + eps).sqrt() / (v + eps).sqrt() * g
    return p - x[0] * delta, [v, s[1] * rho + (1 - rho) * delta * delta]


def _adagrad(
    p: Tensor, g: Tensor, s: list[Tensor], h: Sequence[float], x: Sequence[Any]
) -> tuple[Tensor, list[Tensor]]:
    lr_decay, eps, weight_decay = h
    lr, step = x[:2]
    g = _decayed(p, g, weight_decay)
    total = s[0] + g * g
    return p - lr / (1 + (step - 1) * lr_decay) * (g / (total.sqrt() + eps)), [total]


def _rmsprop(centered: bool, with_momentum: bool) -> Formula:
    """RMSprop. Its states in this order: square mean, mean where centered, buffer where there is momentum."""

    def formula(
        p: Tensor, g: Tensor, s: list[Tensor], h: Sequence[float], x: Sequence[Any]
    ) -> tuple[Tensor, list[Tensor]]:
        alpha, eps, weight_decay, momentum = h
        g = _decayed(p, g, weight_decay)
        v = s[0] * alpha + (1 - alpha) * g * g
        made, spread = [v], v
        if centered:
            mean = s[1] + (g - s[1]) * (1 - alpha)
            made.append(mean)
            spread = v - mean * mean
        direction = g / (spread.sqrt() + eps)
        if with_momentum:
            direction = s[-1] * momentum + direction
            made.append(direction)
        return p - x[0] * direction, made

    return formula


def _rprop(p: Tensor, g: Tensor, s: list[Tensor], h: Sequence[float], x: Sequence[Any]) -> tuple[Tensor, list[Tensor]]:
    etaminus, etaplus, low, high = h
    product = g * s[0]
    factor = oneflow.ones_like(p.detach()).masked_fill(product > 0, etaplus).masked_fill(product < 0, etaminus)
    size = (s[1] * factor).clamp(low, high)
    g = oneflow.where(product < 0, oneflow.zeros_like(g), g)
    return p - g.sign() * size, [g.clone(), size]


def _asgd(p: Tensor, g: Tensor, s: list[Tensor], h: Sequence[float], x: Sequence[Any]) -> tuple[Tensor, list[Tensor]]:
    lambd, weight_decay = h
    # The step writes the next ones into these tensors, and the gradient needs those of now.
    eta, mu = x[2].clone(), x[3].clone()
    g = _decayed(p, g, weight_decay)
    p = p * (1 - lambd * eta) - eta * g
    return p, [p.clone() if float(mu) == 1 else s[0] + (p - s[0]) * mu]


_RULES: dict[str, Formula] = {
    "sgd": _sgd,
    "sgd_momentum": _sgd_momentum,
    "adam": _adam,
    "adam_amsgrad": _adam,
    "nadam": _nadam,
    "radam": _radam,
    "adamax": _adamax,
    "adadelta": _adadelta,
    "adagrad": _adagrad,
    "rmsprop": _rmsprop(False, False),
    "rmsprop_momentum": _rmsprop(False, True),
    "rmsprop_centered": _rmsprop(True, False),
    "rmsprop_centered_momentum": _rmsprop(True, True),
    "rprop": _rprop,
    "asgd": _asgd,
}
