"""Whole training steps: models people train, in plain words of torch, with the optimizer they use."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from benches.measure import is_small

Step = Callable[[], object]
Case = tuple[str, Step]


GPT2 = {"vocabulary": 50304, "layers": 12, "width": 768, "heads": 12, "length": 1024}
GPT2_BATCH = 8
# Of ResNet-50: images a batch, their side, channels of the first stage.
RESNET50 = (64, 224, 64)
if is_small():
    GPT2, GPT2_BATCH = {"vocabulary": 64, "layers": 2, "width": 32, "heads": 2, "length": 16}, 1
    # Two images: in the last stage an image has one place, and a batch norm needs two.
    RESNET50 = (2, 32, 4)


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


def resnet(torch: Any, blocks: tuple[int, ...], bottleneck: bool, width: int = 64, photos: bool = False) -> Any:
    """For images of 32x32 and ten classes; `photos` are larger and begin with a wide convolution and a pooling."""
    nn, F = torch.nn, torch.nn.functional
    grows = 4 if bottleneck else 1

    class Block(nn.Module):
        def __init__(self, i: int, o: int, stride: int) -> None:
            super().__init__()
            sizes = (
                [(i, o, 1, 1), (o, o, 3, stride), (o, o * grows, 1, 1)]
                if bottleneck
                else [(i, o, 3, stride), (o, o, 3, 1)]
            )
            self.convs = nn.ModuleList([nn.Conv2d(a, b, k, s, k // 2, bias=False) for a, b, k, s in sizes])
            self.norms = nn.ModuleList([nn.BatchNorm2d(b) for _, b, _, _ in sizes])
            self.skip: Any = None
            if stride != 1 or i != o * grows:
                self.skip = nn.Sequential(nn.Conv2d(i, o * grows, 1, stride, bias=False), nn.BatchNorm2d(o * grows))

        def forward(self, x: Any) -> Any:
            y = x
            for k, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
                y = norm(conv(y))
                y = F.relu(y) if k + 1 < len(self.convs) else y
            return F.relu(y + (x if self.skip is None else self.skip(x)))

    class ResNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, width, 7, 2, 3, bias=False) if photos else nn.Conv2d(3, width, 3, 1, 1, bias=False)
            self.norm = nn.BatchNorm2d(width)
            layers, i = [], width
            for stage, n in enumerate(blocks):
                o = width << stage
                for k in range(n):
                    layers.append(Block(i, o, 2 if stage and not k else 1))
                    i = o * grows
            self.body, self.head = nn.Sequential(*layers), nn.Linear(i, 1000 if photos else 10)

        def forward(self, x: Any, target: Any) -> Any:
            y = F.relu(self.norm(self.stem(x)))
            y = self.body(F.max_pool2d(y, 3, 2, 1) if photos else y)
            return F.cross_entropy(self.head(y.mean((2, 3))), target)

    return ResNet()


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

    def images(batch: int, size: int, photos: bool) -> Any:
        model = resnet(torch, (2, 2, 2, 2), False, photos=photos)
        inputs = (torch.randn(batch, 3, size, size, device=device), ids(10, batch))
        return with_optimizer(model, inputs, "SGD", momentum=0.9)

    def photos() -> Any:
        batch, size, width = RESNET50
        model = resnet(torch, (3, 4, 6, 3), True, width, photos=True).to(memory_format=torch.channels_last)
        x = torch.randn(batch, 3, size, size, device=device).to(memory_format=torch.channels_last)
        return with_optimizer(model, (x, ids(1000, batch)), "SGD", momentum=0.9)

    # A processor needs minutes for a step.
    large = {
        "GPT-2 124M, T 1024, batch 8": lambda: tokens(*GPT2.values(), GPT2_BATCH),
        "ResNet-50, 224x224, batch 64, channels last, SGD": photos,
    }
    if is_small():
        return large
    large = large if device != "cpu" else {}
    return {
        "MLP 784-512-512-10, batch 128, SGD": digits,
        "GPT 4x128, T 64, batch 12": lambda: tokens(65, 4, 128, 4, 64, 12),
        "GPT 6x384, vocabulary 65, T 256, batch 8": lambda: tokens(65, 6, 384, 6, 256, 8),
        "GPT 6x384, vocabulary 50304, T 256, batch 8": lambda: tokens(50304, 6, 384, 6, 256, 8),
        "LSTM 2x256, T 64, batch 32, Adam": lambda: with_optimizer(
            language_lstm(torch), (ids(1000, 32, 64), ids(1000, 32, 64)), "Adam"
        ),
        "DLRM, 26 sparse tables, batch 512, SGD": clicks,
        "ResNet-18, 32x32, batch 64, SGD": lambda: images(64, 32, False),
        "ResNet-18, 224x224, batch 8, SGD": lambda: images(8, 224, True),
        **large,
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
        if name.startswith(("GPT", "ResNet")):
            yield f"{name}, bfloat16", training_step(torch, make(), device, half=True)
