"""What each model learns here: data that every machine has, a loss, and a score on data that training never saw.

Text is Python's own standard library as bytes; images are the handwritten digits beside the digits example; the rows
of the recommenders describe places in that text, and the click is whether a letter or digit comes next.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.extend(str(Path(__file__).parents[1] / folder) for folder in ("gpt", "digits"))

import oneflow as torch
import oneflow.nn.functional as F
from corpus import counting_baseline, read_corpus
from data import load as load_digits
from oneflow import Tensor, models, nn

Batch = tuple[Tensor, ...]


@dataclass
class Task:
    """A model and what it is trained on.

    Args:
        model: makes it.
        batch: (random generator, held out, size) to the tensors of a batch.
        loss: of a batch.
        score: the number that counts, mean over held-out batches; the loss itself by default.
        unit: of the score.
        baseline: the same number for a method without a network, with its name.
        higher: whether more is better.
        finish: what to print of the trained model.
    """

    model: Callable[[], nn.Module]
    batch: Callable[[random.Random, bool, int], Batch]
    loss: Callable[..., Tensor]
    unit: str
    baseline: Callable[[], tuple[str, float]]
    score: Callable[..., Tensor] | None = None
    higher: bool = False
    finish: Callable[[Any], str] | None = None
    steps: int = 300
    batch_size: int = 16
    lr: float = 3e-3
    weight_decay: float = 0.05
    counts: str = field(default="samples")


# ---- text

TIME = 96
MASK = 256
SPAN = 12


class Text:
    """The corpus, read when first needed."""

    parts: tuple[bytes, bytes] | None = None

    @classmethod
    def part(cls, held_out: bool) -> bytes:
        if cls.parts is None:
            cls.parts = read_corpus()[:2]
        return cls.parts[held_out]

    @classmethod
    def windows(cls, draw: random.Random, held_out: bool, size: int, length: int) -> Tensor:
        text = cls.part(held_out)
        starts = [draw.randrange(len(text) - length) for _ in range(size)]
        return torch.tensor([list(text[start : start + length]) for start in starts])

    @classmethod
    def counts(cls, order: int) -> tuple[str, float]:
        # A part is enough for counts of one and two bytes.
        nats = counting_baseline(cls.part(False)[:1_000_000], cls.part(True)[:50_000], order)
        return ("counts of single bytes", "counts of pairs of bytes")[order - 1], nats


def next_bytes(draw: random.Random, held_out: bool, size: int) -> Batch:
    windows = Text.windows(draw, held_out, size, TIME + 1)
    return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


def masked_bytes(draw: random.Random, held_out: bool, size: int) -> Batch:
    """15 of 100 bytes behind a mask; the targets elsewhere do not count."""
    windows = Text.windows(draw, held_out, size, TIME)
    hidden = torch.tensor([[draw.random() < 0.15 for _ in range(TIME)] for _ in range(size)])
    return windows.masked_fill(hidden, MASK), windows.masked_fill(~hidden, -100)


def missing_span(draw: random.Random, held_out: bool, size: int) -> Batch:
    """A span cut out of a text, where one mask stands instead, and the span."""
    windows = Text.windows(draw, held_out, size, TIME)
    start = draw.randrange(8, TIME - SPAN - 8)
    mask = torch.full((size, 1), MASK)
    source = torch.cat([windows[:, :start], mask, windows[:, start + SPAN :]], dim=1)
    return source, windows[:, start : start + SPAN].contiguous()


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def written(model: Any) -> str:
    tokens = model.generate(torch.tensor([list(b"def ")]), TIME - 4, temperature=0.7, top_k=40)
    return bytes(min(int(token), 255) for token in tokens[0]).decode("utf-8", "replace")


def language(model: Callable[[], nn.Module], forward: Callable[..., Tensor], **changes: Any) -> Task:
    return Task(
        model,
        next_bytes,
        lambda model, tokens, targets: cross_entropy(forward(model, tokens), targets),
        unit="nats per byte",
        baseline=lambda: Text.counts(2),
        finish=written,
        counts="texts",
        **changes,
    )


def gpt2() -> nn.Module:
    return models.GPT2(models.GPT2Config(256, TIME, n_layers=3, n_heads=4, width=128, dropout=0.0))


def llama() -> nn.Module:
    return models.Llama(models.LlamaConfig(256, TIME, 3, n_heads=4, n_kv_heads=2, width=128, hidden=344))


def lstm() -> nn.Module:
    return models.LSTMLM(models.LSTMLMConfig(256, n_layers=2, width=192, hidden=192, dropout=0.0, init_range=0.1))


def bert() -> nn.Module:
    config = models.BertConfig(257, TIME, n_layers=3, n_heads=4, width=128, hidden=512, dropout=0.0)
    return models.BertForPreTraining(config)


def t5() -> nn.Module:
    config = models.T5Config(257, 2, n_heads=4, head_dim=32, width=128, hidden=384, gated=True, dropout=0.0, start=MASK)
    return models.T5(config)


# ---- images

DIGITS_HELD_OUT = 360


class Digits:
    """Images (N, 1, 8, 8) in [0, 1] and labels, training and held out."""

    parts: list[tuple[Tensor, Tensor]] | None = None

    @classmethod
    def part(cls, held_out: bool) -> tuple[Tensor, Tensor]:
        if cls.parts is None:
            images, labels = load_digits()
            order = list(range(len(labels)))
            random.Random(1).shuffle(order)
            splits = (order[DIGITS_HELD_OUT:], order[:DIGITS_HELD_OUT])
            cls.parts = [(images[chosen], labels[chosen]) for chosen in map(torch.tensor, splits)]
        return cls.parts[held_out]

    @classmethod
    def batch(cls, draw: random.Random, held_out: bool, size: int) -> Batch:
        images, labels = cls.part(held_out)
        chosen = torch.tensor([draw.randrange(len(labels)) for _ in range(size)])
        return images[chosen], labels[chosen]


def nearest_mean() -> tuple[str, float]:
    images, labels = Digits.part(False)
    means = torch.stack([images[labels == digit].mean(0).flatten() for digit in range(10)])
    unseen, answers = Digits.part(True)
    right = torch.cdist(unseen.flatten(1), means).argmin(1) == answers
    return "nearest mean image", float(right.float().mean())


def recognition(model: Callable[[], nn.Module], side: int, **changes: Any) -> Task:
    def shown(images: Tensor) -> Tensor:
        return images if side == 8 else F.interpolate(images, size=(side, side), mode="bilinear")

    return Task(
        model,
        Digits.batch,
        lambda model, images, labels: F.cross_entropy(model(shown(images)), labels, label_smoothing=0.05),
        unit="accuracy",
        baseline=nearest_mean,
        score=lambda model, images, labels: (model(shown(images)).argmax(1) == labels).float().mean(),
        higher=True,
        counts="images",
        **{"batch_size": 64, "steps": 300, "lr": 2e-3, **changes},
    )


def vit() -> nn.Module:
    return models.ViT(models.ViTConfig(8, 2, 1, n_layers=4, n_heads=4, width=64, hidden=128, n_classes=10))


def swin() -> nn.Module:
    sizes = {"width": 32, "depths": (2, 2), "n_heads": (2, 4), "window": 4, "drop_path": 0.0}
    return models.Swin(models.SwinConfig(16, 2, 1, n_classes=10, **sizes))


def resnet() -> nn.Module:
    return models.ResNet(models.ResNetConfig((1, 1, 1, 1), bottleneck=False, channels=1, width=16, n_classes=10))


def noisy_ink(draw: random.Random, held_out: bool, size: int) -> Batch:
    """Images under heavy noise, and where their ink is."""
    images, _ = Digits.batch(draw, held_out, size)
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(draw.getrandbits(60)))
    return images + 0.5 * noise, (images > 0.5).float()


def overlap(logits: Tensor, ink: Tensor) -> Tensor:
    """Intersection over union of the pixels that are said to be ink and those that are."""
    guess = (logits > 0).float()
    return (guess * ink).sum() / ((guess + ink) > 0).float().sum()


def threshold_overlap() -> tuple[str, float]:
    images, ink = noisy_ink(random.Random(0), True, DIGITS_HELD_OUT)
    return "a threshold", float(overlap(images - 0.5, ink))


def noised(draw: random.Random, held_out: bool, size: int) -> Batch:
    """Images at random times of a diffusion, the times, the labels and the noise."""
    images, labels = Digits.batch(draw, held_out, size)
    generator = torch.Generator().manual_seed(draw.getrandbits(60))
    noise = torch.randn(images.shape, generator=generator)
    time = torch.randint(0, 1000, (size,), generator=generator)
    kept = kept_share(time)[:, None, None, None]
    return kept.sqrt() * (2 * images - 1) + (1 - kept).sqrt() * noise, time, labels, noise


def kept_share(time: Tensor) -> Tensor:
    """The image's share of the variance at ``time``, from 1 at 0 to almost 0 at 1000, along a cosine."""
    return (time.float() / 1000 * 1.55).cos() ** 2


@torch.no_grad()
def drawn_digits(model: Any) -> str:
    """Ten digits out of noise in 25 steps without new noise (Song et al., "DDIM", 2021), as characters."""
    labels = torch.arange(10)
    x = torch.randn(10, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    times = list(range(999, 0, -40))
    for now, then in zip(times, [*times[1:], 0], strict=True):
        kept, next_kept = (kept_share(torch.tensor(float(time))) for time in (now, then))
        noise = model(x, torch.full((10,), now), labels)
        image = ((x - (1 - kept).sqrt() * noise) / kept.sqrt()).clamp(-1, 1)
        x = next_kept.sqrt() * image + (1 - next_kept).sqrt() * noise
    levels = ((x.clamp(-1, 1) + 1) * 2.49).long()[:, 0].tolist()

    def line(row: int) -> str:
        return "  ".join("".join(" .+#@"[level] * 2 for level in image[row]) for image in levels)

    return "\n".join(line(row) for row in range(8))


def unet() -> nn.Module:
    return models.UNet(models.UNetConfig(1, 1, width=16, multipliers=(1, 2), n_blocks=1))


def denoiser() -> nn.Module:
    sizes = {"width": 32, "multipliers": (1, 2), "n_blocks": 1, "attention": (1,)}
    return models.UNet(models.UNetConfig(1, 1, timed=True, n_classes=10, **sizes))


# ---- rows

N_ROWS = 2000


def hashed(*values: int) -> int:
    """A row of a table for a combination of bytes."""
    mixed = 0
    for value in values:
        mixed = (mixed * 257 + value + 1) % 1_000_003
    return mixed % N_ROWS


def clicks(draw: random.Random, held_out: bool, size: int) -> Batch:
    """Numbers, wide and deep categories of places in the text, and whether a letter or digit follows."""
    text = Text.part(held_out)
    dense, wide, deep, labels = [], [], [], []
    for _ in range(size):
        place = draw.randrange(200, len(text) - 1)
        line = text[text.rfind(b"\n", 0, place) + 1 : place]
        last = text[place - 4 : place]
        indent = len(line) - len(line.lstrip(b" "))
        word = len(line) - max(line.rfind(b" "), line.rfind(b"."), line.rfind(b"("))
        dense.append([min(len(line), 99) / 50, indent / 16, min(word, 20) / 10, float(line.isspace())])
        wide.append([hashed(1, *last[2:]), hashed(2, *last[1:]), hashed(3, *last)])
        deep.append([*last, hashed(*last[2:]), hashed(*last[1:])])
        labels.append(float(chr(text[place]).isalnum()))
    return torch.tensor(dense), torch.tensor(wide), torch.tensor(deep), torch.tensor(labels)


def base_rate() -> tuple[str, float]:
    labels = clicks(random.Random(0), True, 4000)[-1]
    rate = float(labels.mean())
    guess = torch.full_like(labels, rate)
    return "the mean rate", float(F.binary_cross_entropy(guess, labels))


ROWS = (256,) * 4 + (N_ROWS,) * 2


def dlrm() -> nn.Module:
    return models.DLRM(models.DLRMConfig(4, ROWS, width=16, bottom=(64, 32), top=(128, 64)))


def wide_deep() -> nn.Module:
    return models.WideDeep(models.WideDeepConfig(4, N_ROWS, ROWS, width=16, hidden=(128, 64)))


def recommender(model: Callable[[], nn.Module], forward: Callable[..., Tensor]) -> Task:
    def loss(model: Any, dense: Tensor, wide: Tensor, deep: Tensor, labels: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(forward(model, dense, wide, deep), labels)

    sizes = {"steps": 500, "batch_size": 256, "lr": 5e-3, "weight_decay": 0.0}
    return Task(model, clicks, loss, "nats per row", base_rate, counts="rows", **sizes)


TASKS: dict[str, Task] = {
    "gpt2": language(gpt2, lambda model, tokens: model(tokens)),
    "llama": language(llama, lambda model, tokens: model(tokens)),
    "lstm": language(lstm, lambda model, tokens: model(tokens)[0], lr=5e-3),
    "bert": Task(
        bert,
        masked_bytes,
        lambda model, tokens, targets: cross_entropy(model(tokens)[0], targets),
        "nats per masked byte",
        lambda: Text.counts(1),
        batch_size=32,
        steps=400,
        lr=1e-3,
        counts="texts",
    ),
    "t5": Task(
        t5,
        missing_span,
        lambda model, source, span: cross_entropy(model(source, model.shifted(span)), span),
        "nats per byte of a span",
        lambda: Text.counts(1),
        batch_size=32,
        counts="texts",
    ),
    "vit": recognition(vit, side=8, lr=5e-3),
    "swin": recognition(swin, side=16, lr=3e-3),
    "resnet": recognition(resnet, side=32, steps=150),
    "unet": Task(
        unet,
        noisy_ink,
        lambda model, images, ink: F.binary_cross_entropy_with_logits(model(images), ink),
        "intersection over union",
        threshold_overlap,
        score=lambda model, images, ink: overlap(model(images), ink),
        higher=True,
        counts="images",
    ),
    "diffusion": Task(
        denoiser,
        noised,
        lambda model, images, time, labels, noise: F.mse_loss(model(images, time, labels), noise),
        "squared error of the noise",
        lambda: ("guessing zero", 1.0),
        finish=drawn_digits,
        steps=800,
        batch_size=32,
        lr=2e-3,
        counts="images",
    ),
    "dlrm": recommender(dlrm, lambda model, dense, wide, deep: model(dense, deep)),
    "wide_deep": recommender(wide_deep, lambda model, dense, wide, deep: model(dense, wide, deep)),
}
