"""The optimizers of the domain ``ai.onnx.preview.training``."""

from __future__ import annotations

from typing import Any

import oneflow as flow
from oneflow.onnx._import.registry import Call, handler

_TRAINING = "ai.onnx.preview.training"


def _groups(values: tuple[Any, ...], kinds: int) -> list[tuple[Any, ...]]:
    """The tensors of each parameter: the inputs have all parameters, then all gradients, then each kind of state."""
    n = len(values) // kinds
    return [tuple(values[k * n + i] for k in range(kinds)) for i in range(n)]


def _ordered(rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(value for column in zip(*rows, strict=True) for value in column)


@handler("Adagrad", domain=_TRAINING)
def adagrad(c: Call, rate: Any, step: Any, *values: Any) -> Any:
    decayed = rate / (1 + step.to(rate.dtype) * c.get("decay_factor", 0.0))
    rows = []
    for x, g, h in _groups(values, 3):
        g = c.get("norm_coefficient", 0.0) * x + g
        h = h + g * g
        rows.append((x - decayed * g / (flow.sqrt(h) + c.get("epsilon", 1e-6)), h))
    return _ordered(rows)


@handler("Momentum", domain=_TRAINING)
def momentum(c: Call, rate: Any, step: Any, *values: Any) -> Any:
    alpha, beta = c.need("alpha"), c.need("beta")
    rows = []
    for x, g, v in _groups(values, 3):
        g = c.need("norm_coefficient") * x + g
        v = alpha * v + (beta if int(step.item()) > 0 else 1.0) * g
        rows.append((x - rate * (g + alpha * v if c.text("mode") == "nesterov" else v), v))
    return _ordered(rows)


@handler("Adam", domain=_TRAINING)
def adam(c: Call, rate: Any, step: Any, *values: Any) -> Any:
    alpha, beta, t = c.get("alpha", 0.9), c.get("beta", 0.999), int(step.item())
    rows = []
    for x, g, v, h in _groups(values, 4):
        g = c.get("norm_coefficient", 0.0) * x + g
        v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
        adjusted = rate * ((1 - beta**t) ** 0.5 / (1 - alpha**t)) if t > 0 else rate
        x = x - adjusted * v / (flow.sqrt(h) + c.get("epsilon", 1e-6))
        rows.append(((1 - c.get("norm_coefficient_post", 0.0)) * x, v, h))
    return _ordered(rows)
