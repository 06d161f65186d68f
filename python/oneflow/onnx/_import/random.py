"""Random tensors; a ``seed`` attribute seeds only its own call."""

from __future__ import annotations

from typing import Any

import oneflow as flow
from oneflow.onnx._import.registry import Call, handler
from oneflow.onnx._import.values import dtype_of


def _generator(c: Call) -> Any:
    seed = c.get("seed")
    if seed is None:
        return None
    generator = flow.Generator()
    generator.manual_seed(int(seed))
    return generator


def _dtype(c: Call, like: Any = None) -> Any:
    given = c.get("dtype")
    return dtype_of(given) if given is not None else (flow.float32 if like is None else like.dtype)


@handler("RandomNormal", "RandomNormalLike")
def random_normal(c: Call, like: Any = None) -> Any:
    sizes = list(c.need("shape")) if like is None else list(like.shape)
    x = flow.randn(sizes, generator=_generator(c)) * c.get("scale", 1.0) + c.get("mean", 0.0)
    return x.to(_dtype(c, like))


@handler("RandomUniform", "RandomUniformLike")
def random_uniform(c: Call, like: Any = None) -> Any:
    sizes = list(c.need("shape")) if like is None else list(like.shape)
    low, high = c.get("low", 0.0), c.get("high", 1.0)
    return (flow.rand(sizes, generator=_generator(c)) * (high - low) + low).to(_dtype(c, like))


@handler("Bernoulli")
def bernoulli(c: Call, x: Any) -> Any:
    drawn = flow.rand(list(x.shape), generator=_generator(c)) < x
    return drawn.to(_dtype(c, x))


@handler("Multinomial")
def multinomial(c: Call, x: Any) -> Any:
    n = c.get("sample_size", 1)
    drawn = flow.multinomial(flow.softmax(x, -1), n, True, generator=_generator(c))
    return drawn.to(dtype_of(c.get("dtype", 6)))
