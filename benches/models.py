"""Whole training steps: models people train, in plain words of torch, with the optimizer they use."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

Step = Callable[[], object]
Case = tuple[str, Step]


def gpt(torch: Any, vocabulary: int, layers: int, width: int, heads: int, length: int) -> Any:
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
            self.project, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, time, _ = x.shape
            parts = self.project(self.before_attention(x)).view(batch, time, 3, heads, width // heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.merge(y.transpose(1, 2).reshape(batch, time, width))
            return x + self.down(F.gelu(self.up(self.before_mlp(x))))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, ids: Any, target: Any) -> Any:
            x = self.tokens(ids) + self.positions.weight
            logits = self.head(self.norm(self.blocks(x)))
            return F.cross_entropy(logits.flatten(0, 1), target.flatten())

    return Model()


def language_lstm(torch: Any) -> Any:
    nn, F = torch.nn, torch.nn.functional

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.head = nn.Embedding(1000, 256), nn.Linear(256, 1000)
            self.recurrent = nn.LSTM(256, 256, 2, batch_first=True)

        def forward(self, ids: Any, target: Any) -> Any:
            states, _ = self.recurrent(self.tokens(ids))
            return F.cross_entropy(self.head(states).flatten(0, 1), target.flatten())

    return Model()


def perceptron(torch: Any, *sizes: int) -> Any:
    nn = torch.nn
    layers: list[Any] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def classifier(torch: Any, *sizes: int) -> Any:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = perceptron(torch, *sizes)

        def forward(self, x: Any, target: Any) -> Any:
            return torch.nn.functional.cross_entropy(self.layers(x), target)

    return Model()


def recommender(torch: Any, tables: int = 26, rows: int = 20_000, width: int = 16) -> Any:
    """Dense features and sparse tables that meet in all pairs of products."""
    nn, F = torch.nn, torch.nn.functional

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            bags = (nn.EmbeddingBag(rows, width, mode="sum", sparse=True) for _ in range(tables))
            self.tables = nn.ModuleList(bags)
            self.bottom = perceptron(torch, 13, 512, 64, width)
            n = tables + 1
            self.top = perceptron(torch, n * (n - 1) // 2 + width, 512, 256, 1)
            self.register_buffer("pairs", torch.tril_indices(n, n, -1))

        def forward(self, x: Any, ids: Any, target: Any) -> Any:
            dense = self.bottom(x)
            all_of = torch.stack([dense] + [table(i) for table, i in zip(self.tables, ids, strict=True)], 1)
            met = torch.bmm(all_of, all_of.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
            score = self.top(torch.cat([dense, met], 1)).squeeze(1)
            return F.binary_cross_entropy_with_logits(score, target)

    return Model()


def models(torch: Any, device: str) -> dict[str, Callable[[], tuple[Any, tuple[Any, ...], Any]]]:
    """By name: what makes a model, its inputs and its optimizer."""

    def ids(vocabulary: int, *sizes: int) -> Any:
        return torch.randint(0, vocabulary, sizes, device=device)

    def with_optimizer(model: Any, inputs: tuple[Any, ...], name: str, **arguments: Any) -> tuple[Any, Any, Any]:
        model = model.to(device)
        return model, inputs, getattr(torch.optim, name)(model.parameters(), lr=1e-4, **arguments)

    def tokens(vocabulary: int, layers: int, width: int, heads: int, length: int, batch: int) -> Any:
        model = gpt(torch, vocabulary, layers, width, heads, length)
        return with_optimizer(model, (ids(vocabulary, batch, length), ids(vocabulary, batch, length)), "AdamW")

    def digits() -> Any:
        model, x = classifier(torch, 784, 512, 512, 10), torch.randn(128, 784, device=device)
        return with_optimizer(model, (x, ids(10, 128)), "SGD", momentum=0.9)

    def clicks() -> Any:
        inputs = (torch.randn(512, 13, device=device), ids(20_000, 26, 512, 2), torch.rand(512, device=device))
        return with_optimizer(recommender(torch), inputs, "SGD")

    return {
        "MLP 784-512-512-10, batch 128, SGD": digits,
        "GPT 4x128, T 64, batch 12": lambda: tokens(65, 4, 128, 4, 64, 12),
        "GPT 6x384, vocabulary 65, T 256, batch 8": lambda: tokens(65, 6, 384, 6, 256, 8),
        "GPT 6x384, vocabulary 50304, T 256, batch 8": lambda: tokens(50304, 6, 384, 6, 256, 8),
        "LSTM 2x256, T 64, batch 32, Adam": lambda: with_optimizer(
            language_lstm(torch), (ids(1000, 32, 64), ids(1000, 32, 64)), "Adam"
        ),
        "DLRM, 26 sparse tables, batch 512, SGD": clicks,
    }


def training_step(torch: Any, made: tuple[Any, tuple[Any, ...], Any], device: str, half: bool = False) -> Step:
    model, inputs, optimizer = made

    def step() -> object:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16) if half else contextlib.nullcontext():
            loss = model(*inputs)
        loss.backward()
        optimizer.step()
        return loss

    return step


def train(torch: Any, device: str) -> Iterator[Case]:
    """Steps in float32."""
    for name, make in models(torch, device).items():
        yield name, training_step(torch, make(), device)


def autocast(torch: Any, device: str) -> Iterator[Case]:
    """Steps under bfloat16 autocast."""
    for name, make in models(torch, device).items():
        if name.startswith("GPT"):
            yield f"{name}, bfloat16", training_step(torch, make(), device, half=True)
