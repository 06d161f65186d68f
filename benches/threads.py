"""`python -m benches.threads`: two threads beside one, on an idle machine and with one core kept busy.

Prints one-thread time over two-thread time (2.0 is ideal), and two-thread time beside another process over one-thread
time without (at most 1.2: work moves to the free core). Also a fresh result of 64 MB beside one written into ``out=``.
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import oneflow as flow

sys.path.append(str(Path(__file__).parents[1] / "examples" / "gpt"))

ROUNDS = 7


def products() -> Callable[[], object]:
    a, b = flow.randn(1024, 1024), flow.randn(1024, 1024)
    return lambda: [a @ b for _ in range(8)]


def gpt_step() -> Callable[[], object]:
    from model import GPT, GPTConfig

    model = GPT(GPTConfig(block_size=64, n_layers=4, n_heads=4, width=128))
    optimizer = flow.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = flow.randint(0, 256, (12, 64))

    def step() -> None:
        optimizer.zero_grad()
        model(tokens, tokens).backward()
        optimizer.step()

    return step


def seconds(work: Callable[[], object], threads: int) -> float:
    flow.set_num_threads(threads)
    work()
    start = time.perf_counter()
    for _ in range(3):
        work()
    return (time.perf_counter() - start) / 3


def spin() -> None:
    while True:
        pass


def main() -> None:
    for name, make in {"8 products 1024": products, "GPT 4x128 step": gpt_step}.items():
        work = make()
        alone = [(seconds(work, 1), seconds(work, 2)) for _ in range(ROUNDS)]
        one = statistics.median(a for a, _ in alone)
        two = statistics.median(b for _, b in alone)
        busy = multiprocessing.get_context("spawn").Process(target=spin, daemon=True)
        busy.start()
        time.sleep(1.0)
        beside = statistics.median(seconds(work, 2) for _ in range(ROUNDS))
        busy.kill()
        busy.join()
        print(f"{name:20} one / two threads {one / two:.2f}   two with a busy core / one {beside / one:.2f}")
    flow.set_num_threads(1)
    a, b = flow.randn(4096, 4096), flow.randn(4096, 4096)
    out = flow.empty(4096, 4096)
    pairs = [(seconds(lambda: flow.add(a, b), 1), seconds(lambda: flow.add(a, b, out=out), 1)) for _ in range(ROUNDS)]
    fresh, given = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{'add 64 MB':20} fresh / out= {fresh / given:.2f}")


if __name__ == "__main__":
    main()
