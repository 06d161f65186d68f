"""`python -m benches.dynamic`: programs for many sizes beside programs for one.

One thread. For each model: milliseconds of a step of the program for one size and of the program for all, at the same
size, as medians of interleaved samples, with their ratio; then what a size costs that the program has not seen (plan,
checks, launches; the run itself is not counted): the median and the largest of many sizes. Nothing of it is compiling.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from benches.measure import count_processor_time, medians
from benches.models import resnet
from benches.plans import gpt, perceptron

Case = tuple[str, Any, Callable[[int], tuple[Any, ...]], dict[str, Any], int, bool]


def cases(flow: Any) -> Iterator[Case]:
    """Name, model, inputs by batch, open dimensions, batch, and whether it trains."""

    def rows(*shape: int) -> Callable[[int], tuple[Any, ...]]:
        return lambda n: (flow.randn(n, *shape),)

    def tokens(length: int) -> Callable[[int], tuple[Any, ...]]:
        return lambda n: (flow.randint(0, 512, (n, length)), flow.randint(0, 512, (n, length)))

    one, two = {"x": {0: "batch"}}, {"x": {0: "batch"}, "y": {0: "batch"}}
    nn = flow.nn
    mlp = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    yield "MLP, batch 32", mlp, rows(64), one, 32, False
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0), 4, enable_nested_tensor=False
    )
    yield "encoder of 4 layers, batch 8, length 64", encoder, rows(64, 128), one, 8, False
    yield "encoder of 4 layers, batch 8, any length", encoder, rows(64, 128), {"x": {0: "batch", 1: "length"}}, 8, False
    images = resnet(flow, (2, 2, 2, 2), False)
    yield (
        "ResNet-18, batch 2",
        images,
        lambda n: (flow.randn(n, 3, 32, 32), flow.randint(0, 10, (n,))),
        two,
        2,
        False,
    )
    yield "GPT of 6 layers, batch 4, length 64", gpt(flow, 6, 128, 4, 512, 64), tokens(64), two, 4, False
    yield "step of a GPT of 6 layers, batch 4", gpt(flow, 6, 128, 4, 512, 64), tokens(64), two, 4, True
    yield (
        "step of an MLP, batch 32",
        perceptron(flow, 64, 128, 10),
        lambda n: (flow.randn(n, 64), flow.randint(0, 10, (n,))),
        two,
        32,
        True,
    )


def graph(flow: Any, model: Any, shapes: dict[str, Any] | None, trains: bool) -> Any:
    class Step(flow.nn.Graph):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            if trains:
                self.add_optimizer(flow.optim.AdamW(model.parameters(), lr=1e-4))
            self.config.set_dynamic_shapes(shapes)

        def build(self, x: Any, y: Any = None) -> Any:
            result = self.model(x) if y is None else self.model(x, y)
            if trains:
                result.backward()
            return result

    return Step()


def milliseconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(prog="benches.dynamic", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="per case")
    parser.add_argument("--sizes", type=int, default=24, help="unseen sizes that are tried")
    parser.add_argument("--only", default="", help="cases with this text in their name")
    args = parser.parse_args()
    import oneflow as flow

    flow.set_num_threads(1)
    count_processor_time(True)
    print("columns: ms for one size, ms for all, ratio; ms of a new size, the largest; launches")
    for name, model, inputs, shapes, batch, trains in cases(flow):
        if args.only not in name:
            continue
        model.train(trains)
        with flow.set_grad_enabled(trains):
            fixed, every = graph(flow, model, None, trains), graph(flow, model, shapes, trains)
            x = inputs(batch)
            fixed(*x)
            every(*x)
            one, all_ = medians(lambda f=fixed, x=x: f(*x), lambda f=every, x=x: f(*x), args.seconds)
            compiled = every._latest("bench").compiled
            dims = [name for name, _, _ in compiled.dims()]
            extra = []
            for n in range(batch + 1, batch + 1 + args.sizes):
                sizes = [n if name == "batch" else n + 20 for name in dims]
                extra.append(milliseconds(lambda c=compiled, s=sizes: c.prepare(s)))
        print(
            f"{name:45} {one * 1e3:9.3f} {all_ * 1e3:9.3f} {all_ / one:6.3f}   "
            f"{statistics.median(extra):7.3f} {max(extra):7.3f}  {compiled.n_launches():4}"
        )


if __name__ == "__main__":
    main()
