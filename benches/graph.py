"""The compiled step beside our own eager step: the demo's GPT and a tiny MLP."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benches.cases import loss
from benches.measure import is_small
from benches.models import GPT2, GPT2_BATCH, RESNET50, gpt, resnet

Pair = tuple[str, Callable[[], object], Callable[[], object]]


def steps(flow: Any, make: Callable[[], Any], objective: Callable[[Any], Any]) -> tuple[Callable[[], object], ...]:
    """An eager and a compiled step of two models made alike."""

    def optimizer(model: Any) -> Any:
        return flow.optim.AdamW(model.parameters(), lr=1e-4)

    model, compiled = make(), make()
    eager_optimizer, graph_optimizer = optimizer(model), optimizer(compiled)

    def eager() -> object:
        eager_optimizer.zero_grad()
        value = objective(model)
        value.backward()
        eager_optimizer.step()
        return value

    class Step(flow.nn.Graph):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = compiled
            self.add_optimizer(graph_optimizer)

        def build(self) -> Any:
            value = objective(self.model)
            value.backward()
            return value

    return eager, Step()


def pairs(flow: Any, device: str = "cpu") -> Iterator[Pair]:
    x, target = flow.ones(8, 32, device=device), flow.arange(8, device=device)

    def mlp() -> Any:
        nn = flow.nn
        layers = (nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        return nn.Sequential(*layers).to(device)

    yield ("step of a tiny MLP", *steps(flow, mlp, lambda m: loss(flow, m(x), target)))
    if not is_small():
        yield ("step of the demo's GPT", *demo_steps(flow, device))
    if device == "cpu":
        return
    ids = flow.randint(0, GPT2["vocabulary"], (GPT2_BATCH, GPT2["length"]), device=device)
    batch, size, width = RESNET50
    last = flow.channels_last
    photos = flow.randn(batch, 3, size, size, device=device).to(memory_format=last)
    kinds = flow.randint(0, 1000, (batch,), device=device)

    def half(*inputs: Any) -> Callable[[Any], Any]:
        def objective(m: Any) -> Any:
            with flow.autocast(device, flow.bfloat16):
                return m(*inputs)

        return objective

    def resnet50() -> Any:
        return resnet(flow, (3, 4, 6, 3), True, width, photos=True).to(device).to(memory_format=last)

    yield ("step of GPT-2 124M, bfloat16", *steps(flow, lambda: gpt(flow, **GPT2).to(device), half(ids, ids)))
    yield ("step of ResNet-50, channels last, bfloat16", *steps(flow, resnet50, half(photos, kinds)))


def demo_steps(flow: Any, device: str) -> tuple[Callable[[], object], ...]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "gpt"))
    from model import GPT, GPTConfig

    tokens = flow.randint(0, 256, (16, 128), device=device)

    def demo() -> Any:
        return GPT(GPTConfig()).to(device)

    return steps(flow, demo, lambda m: loss(flow, m(tokens), tokens))
