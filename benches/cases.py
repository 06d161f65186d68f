"""The measured programs, written once in torch's words and given the package that runs them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from benches.conv import SECTIONS as CONV
from benches.embedding import embedding
from benches.generate import generate
from benches.kernels import elementwise, kernels, products
from benches.loader import loader
from benches.models import autocast, train
from benches.roofline import roofline

# A name, what is timed and, where it is counted, what that moves or computes.
Case = tuple[str, Callable[[], object]] | tuple[str, Callable[[], object], dict[str, float]]


def tiny(torch: Any, device: str) -> Iterator[Case]:
    """Small ops: what a call costs around its kernel."""
    F = torch.nn.functional
    x, y = (torch.ones(32, 32, device=device) for _ in range(2))
    one = torch.ones(1, device=device)
    w, b = torch.ones(64, 32, device=device), torch.ones(64, device=device)
    for t in (x, w, b):
        t.requires_grad_(torch.is_grad_enabled())
    ids = torch.arange(32, device=device)
    yield "add [1]", lambda: one + one
    yield "add [32, 32]", lambda: x + y
    yield "mul by a number", lambda: x * 2.0
    yield "matmul 32", lambda: x @ y
    yield "linear", lambda: F.linear(x, w, b)
    yield "gelu", lambda: F.gelu(x)
    yield "softmax", lambda: torch.softmax(x, -1)
    yield "layer_norm", lambda: F.layer_norm(x, (32,))
    yield "cross_entropy", lambda: F.cross_entropy(x, ids)
    yield "sum", lambda: x.sum()
    yield "view", lambda: x.view(64, 16)
    yield "x[:, 1:3]", lambda: x[:, 1:3]
    yield "cat", lambda: torch.cat([x, y])


def backward(torch: Any, device: str) -> Iterator[Case]:
    """Chains of adds: what a node of the tape costs."""
    x = torch.ones(1, device=device, requires_grad=True)

    def chain(n: int) -> Callable[[], None]:
        def run() -> None:
            y = x
            for _ in range(n):
                y = y + x
            y.backward()

        return run

    for n in (10, 100, 1000):
        yield f"chain of {n} adds, forward and backward", chain(n)


def mlp(torch: Any, device: str) -> Iterator[Case]:
    """One training step of perceptrons."""
    for sizes, batch in (((32, 64, 64, 10), 8), ((784, 512, 512, 10), 128)):
        layers: list[Any] = []
        for a, b in itertools.pairwise(sizes):
            layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
        model = torch.nn.Sequential(*layers[:-1]).to(device)
        x = torch.ones(batch, sizes[0], device=device)
        target = torch.arange(batch, device=device) % sizes[-1]
        yield f"step of MLP {sizes}, AdamW", step(torch, model, lambda m=model, x=x, t=target: loss(torch, m(x), t))


def loss(torch: Any, logits: Any, target: Any) -> Any:
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1))


def step(torch: Any, model: Any, objective: Callable[[], Any]) -> Callable[[], object]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def run() -> object:
        optimizer.zero_grad(set_to_none=True)
        value = objective()
        value.backward()
        optimizer.step()
        return value

    return run


SECTIONS: dict[str, Callable[[Any, str], Iterator[Case]]] = {
    "tiny": tiny,
    "backward": backward,
    "mlp": mlp,
    "products": products,
    "roofline": roofline,
    "kernels": kernels,
    "elementwise": elementwise,
    "train": train,
    "autocast": autocast,
    "generate": generate,
    "loader": loader,
    "embedding": embedding,
    **CONV,
}
