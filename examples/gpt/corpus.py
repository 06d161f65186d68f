"""The training text: the top-level modules of Python's own standard library, as bytes.

Every machine that can run the demo already has this text. Nothing is downloaded.
"""

from __future__ import annotations

import math
import random
import sysconfig
from collections import Counter
from pathlib import Path

VOCABULARY = 256
HELD_OUT_EVERY = 10


def read_corpus(root: str | None = None) -> tuple[bytes, bytes, list[str]]:
    """Return (training bytes, held-out bytes, held-out file names).

    The files are sorted by name; every ``HELD_OUT_EVERY``-th is held out whole, so no part of it is seen in training.
    """
    files = sorted(Path(root or sysconfig.get_path("stdlib")).glob("*.py"), key=lambda path: path.name)
    if len(files) < HELD_OUT_EVERY:
        raise RuntimeError(f"found only {len(files)} Python files in {root or sysconfig.get_path('stdlib')}")
    held_out = [file for i, file in enumerate(files) if i % HELD_OUT_EVERY == HELD_OUT_EVERY - 1]
    train = [file for i, file in enumerate(files) if i % HELD_OUT_EVERY != HELD_OUT_EVERY - 1]
    return (
        b"\n".join(file.read_bytes() for file in train),
        b"\n".join(file.read_bytes() for file in held_out),
        [file.name for file in held_out],
    )


def batch_at(text: bytes, step: int, seed: int, batch_size: int, block_size: int) -> list[list[int]]:
    """Return the windows of one step, ``batch_size`` lists of ``block_size + 1`` byte values.

    A pure function of (seed, step): a resumed run sees the batches that the interrupted one would have seen.
    """
    draw = random.Random(seed * 1_000_003 + step)
    starts = [draw.randrange(len(text) - block_size) for _ in range(batch_size)]
    return [list(text[start : start + block_size + 1]) for start in starts]


def counting_baseline(train: bytes, held_out: bytes, order: int) -> float:
    """Held-out nats per byte of an ``order``-gram counting model (2 = bigram, 3 = trigram).

    Counts are interpolated with the next lower order by Witten-Bell weights, down to the uniform distribution.
    """
    losses = 0.0
    grams, contexts, followers = [], [], []
    for n in range(1, order + 1):
        counts = Counter(train[i : i + n] for i in range(len(train) - n + 1))
        total: Counter[bytes] = Counter()
        kinds: Counter[bytes] = Counter()
        for gram, count in counts.items():
            total[gram[:-1]] += count
            kinds[gram[:-1]] += 1
        grams.append(counts)
        contexts.append(total)
        followers.append(kinds)
    cache: dict[bytes, float] = {}
    for i in range(order - 1, len(held_out)):
        window = held_out[i - order + 1 : i + 1]
        loss = cache.get(window)
        if loss is None:
            probability = 1.0 / VOCABULARY
            for n in range(1, order + 1):
                gram = window[order - n :]
                seen, distinct = contexts[n - 1][gram[:-1]], followers[n - 1][gram[:-1]]
                if seen:
                    probability = (grams[n - 1][gram] + distinct * probability) / (seen + distinct)
            loss = cache[window] = -math.log(probability)
        losses += loss
    return losses / (len(held_out) - order + 1)
