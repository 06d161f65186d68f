"""`python -m benches.plans [steps|line|loader|memory|compile ...]`: compiled steps beside eager ones, and compiling.

One thread, processor time, medians of interleaved samples. `steps` compares nn.Graph with our eager step, with
PyTorch's eager step and, with `--compile`, with torch.compile, which compiles before the first sample. `loader`
compares wall times, and needs two free cores.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from benches.models import resnet

Thunk = Callable[[], object]
Case = tuple[str, Any, tuple[Any, ...], Callable[[Any], Any]]


def gpt(torch: Any, layers: int, width: int, heads: int, vocabulary: int, length: int) -> Any:
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            parts = self.qkv(self.norms[0](x)).split(c, 2)
            q, k, v = (p.view(b, t, heads, c // heads).transpose(1, 2) for p in parts)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
            x = x + self.out(y)
            return x + self.down(F.gelu(self.up(self.norms[1](x))))

    class GPT(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, ids: Any, target: Any) -> Any:
            x = self.token(ids) + self.place(torch.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            logits = self.head(self.norm(x))
            return F.cross_entropy(logits.view(-1, vocabulary), target.view(-1))

    return GPT()


def perceptron(torch: Any, *sizes: int) -> Any:
    nn = torch.nn
    layers: list[Any] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]

    class Loss(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(*layers[:-1])

        def forward(self, x: Any, target: Any) -> Any:
            return nn.functional.cross_entropy(self.net(x), target)

    return Loss()


def lstm(torch: Any) -> Any:
    nn = torch.nn

    class Model(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(1000, 256), nn.Linear(256, 1000)
            self.lstm = nn.LSTM(256, 256, 2, batch_first=True)

        def forward(self, ids: Any, target: Any) -> Any:
            y = self.head(self.lstm(self.embed(ids))[0])
            return nn.functional.cross_entropy(y.flatten(0, 1), target.view(-1))

    return Model()


def tables(torch: Any) -> Any:
    nn = torch.nn

    class Model(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList([nn.Embedding(20000, 16) for _ in range(26)])
            self.dense, self.top = (
                nn.Linear(13, 16),
                nn.Sequential(nn.Linear(27 * 16, 256), nn.ReLU(), nn.Linear(256, 1)),
            )

        def forward(self, x: Any, ids: Any, target: Any) -> Any:
            parts = [self.dense(x)] + [t(ids[i]).sum(1) for i, t in enumerate(self.tables)]
            return nn.functional.binary_cross_entropy_with_logits(self.top(torch.cat(parts, 1)).squeeze(1), target)

    return Model()


def cases(torch: Any) -> Iterator[Case]:
    torch.manual_seed(0)
    ids = lambda n, *shape: torch.randint(0, n, shape)  # noqa: E731
    adamw = lambda p: torch.optim.AdamW(p, lr=1e-4)  # noqa: E731
    sgd = lambda p: torch.optim.SGD(p, lr=1e-3)  # noqa: E731
    yield "tiny MLP 8x32-64-64-10", perceptron(torch, 32, 64, 64, 10), (torch.randn(8, 32), ids(10, 8)), adamw
    yield (
        "MLP 784-512-512-10, batch 128",
        perceptron(torch, 784, 512, 512, 10),
        (torch.randn(128, 784), ids(10, 128)),
        adamw,
    )
    yield "nanoGPT 4x128, T 64, batch 1", gpt(torch, 4, 128, 4, 65, 64), (ids(65, 1, 64), ids(65, 1, 64)), adamw
    yield "nanoGPT 4x128, T 64, batch 12", gpt(torch, 4, 128, 4, 65, 64), (ids(65, 12, 64), ids(65, 12, 64)), adamw
    yield "LSTM 2x256, T 64, batch 32", lstm(torch), (ids(1000, 32, 64), ids(1000, 32, 64)), adamw
    tables_in = (torch.randn(512, 13), ids(20000, 26, 512, 2), torch.rand(512))
    yield "26 tables of 20000x16, batch 512", tables(torch), tables_in, sgd
    yield "ResNet-18, 32x32, batch 8", resnet(torch, (2, 2, 2, 2), False), (torch.randn(8, 3, 32, 32), ids(10, 8)), sgd
    for vocabulary in (65, 50304):
        gpt_in = (ids(vocabulary, 8, 256), ids(vocabulary, 8, 256))
        name = f"GPT 6x384, T 256, batch 8, V {vocabulary}"
        yield name, gpt(torch, 6, 384, 6, vocabulary, 256), gpt_in, adamw


def eager(model: Any, inputs: tuple[Any, ...], optimizer: Any) -> Thunk:
    def step() -> object:
        optimizer.zero_grad(set_to_none=True)
        loss = model(*inputs)
        loss.backward()
        optimizer.step()
        return loss

    return step


def graph(flow: Any, model: Any, inputs: tuple[Any, ...], optimizer: Any, level: int = -1) -> Any:
    class Step(flow.nn.Graph):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(debug_v_level=level)
            self.model = model
            self.add_optimizer(optimizer)

        def build(self, *inputs: Any) -> Any:
            loss = self.model(*inputs)
            loss.backward()
            return loss

    return Step()


def interleaved(thunks: list[Thunk], seconds: float) -> list[float]:
    """Median processor time of each, samples taken in turn."""
    samples: list[list[float]] = [[] for _ in thunks]
    counts = []
    for f in thunks:
        f()
        f()
        start = time.perf_counter()
        f()
        counts.append(max(1, int(0.02 / max(time.perf_counter() - start, 1e-6))))
    start = time.perf_counter()
    while time.perf_counter() - start < seconds or len(samples[0]) < 5:
        for f, n, s in zip(thunks, counts, samples, strict=True):
            t = time.process_time()
            for _ in range(n):
                f()
            s.append((time.process_time() - t) / n)
    return [statistics.median(s) for s in samples]


def steps(args: argparse.Namespace) -> None:
    import oneflow as flow
    import torch
    import torch._inductor.config

    for package in (flow, torch):
        package.set_num_threads(1)
    print("compiled step beside: our eager | PyTorch's eager" + (" | torch.compile" if args.compile else ""))
    rows: list[list[float]] = []
    ours, other, theirs = cases(flow), cases(flow), cases(torch)
    for (name, a, x, make), (_, b, _, _), (_, c, y, make_theirs) in zip(ours, other, theirs, strict=True):
        if args.only not in name:
            continue
        compiled = graph(flow, a, x, make(a.parameters()))
        thunks = [lambda g=compiled, x=x: g(*x), eager(b, x, make(b.parameters()))]
        thunks.append(eager(c, y, make_theirs(c.parameters())))
        if args.compile:
            # The width of the vectors it writes its own kernels with, in bits; none is what the processor has.
            torch._inductor.config.cpp.simdlen = 256 if args.isa else None
            thunks.append(eager(torch.compile(c), y, make_theirs(c.parameters())))
        mine, *rest = interleaved(thunks, args.seconds)
        print(f"{name:36s} " + " ".join(f"x{mine / r:.3f}" for r in rest), flush=True)
        if "tiny" not in name:
            rows.append([mine / r for r in rest])
    if rows:
        means = [statistics.geometric_mean(column) for column in zip(*rows, strict=True)]
        print(f"{'geo-mean without the tiny MLP':36s} " + " ".join(f"x{m:.3f}" for m in means), flush=True)


def line(args: argparse.Namespace) -> None:
    """1,000 small ops that cannot fuse: a product and a sum over rows, in turn."""
    import oneflow as flow

    class Line(flow.nn.Graph):  # type: ignore[misc]
        def build(self, x: Any) -> Any:
            for _ in range(500):
                x = (x @ x).sum(0, keepdim=True).expand(4, 4)
            return x

    x, compiled = flow.ones(4, 4) / 16, Line()
    (time_of_run,) = interleaved([lambda: compiled(x)], args.seconds)
    program = next(iter(compiled._compiled.values())).compiled
    n = program.n_launches()
    print(f"{n} launches: {time_of_run / n * 1e9:.0f} ns each, kernels included")


def loader(args: argparse.Namespace) -> None:
    """A step fed by a loader that alone needs a share of the step's time, beside the step with its data in memory."""
    import oneflow as flow

    flow.set_num_threads(1)
    _, model, inputs, make = next(case for case in cases(flow) if case[0].startswith("MLP"))
    compiled = graph(flow, model, inputs, make(model.parameters()))
    noise = flow.randn(4096)

    def wall(f: Thunk, n: int) -> tuple[float, float]:
        """Seconds a call, and seconds of this thread's processor time."""
        start = time.perf_counter(), time.thread_time()
        for _ in range(n):
            f()
        return (time.perf_counter() - start[0]) / n, (time.thread_time() - start[1]) / n

    def batches(work: int) -> Iterator[tuple[Any, ...]]:
        # Without an end: until the last step measured, the loader works beside it.
        while True:
            for _ in range(work):
                noise.sort()
            yield inputs

    wall(lambda: compiled(*inputs), 20)
    step = statistics.median(wall(lambda: compiled(*inputs), 10)[1] for _ in range(20))
    piece = statistics.median(wall(noise.sort, 10)[1] for _ in range(20))
    for share in (0.5, 0.65, 0.8):
        work = max(1, round(share * step / piece))
        samples: list[list[tuple[float, float]]] = [[], []]
        start = time.perf_counter()
        while time.perf_counter() - start < args.seconds or len(samples[0]) < 5:
            samples[0].append(wall(lambda: compiled(*inputs), 40))
            fed = compiled.over(batches(work))
            for _ in range(8):
                next(fed)
            samples[1].append(wall(functools.partial(next, fed), 40))
            fed.close()
        (plain, plain_cpu), (fed_wall, fed_cpu) = (
            [statistics.median(column) for column in zip(*s, strict=True)] for s in samples
        )
        print(
            f"loader that alone needs {share} of a step: step x{fed_wall / plain:.3f} of that with the data in memory, "
            f"x{fed_cpu / plain_cpu:.3f} of its thread's processor time",
            flush=True,
        )


def memory(args: argparse.Namespace) -> None:
    """Planned peak beside the largest sum of live bytes."""
    import oneflow as flow

    for name, model, inputs, make in cases(flow):
        if args.only in name:
            m = graph(flow, model, inputs, make(model.parameters())).trace(*inputs).memory()
            print(
                f"{name:36s} peak {m['peak'] / 1e6:8.2f} MB, x{m['peak'] / m['lower_bound']:.4f} of the bound",
                flush=True,
            )


def compiling(args: argparse.Namespace) -> None:
    """Trace and compile times of large training steps."""
    import oneflow as flow

    flow.set_num_threads(1)
    ids = flow.randint(0, 65, (1, 16))
    deep = gpt(flow, 48, 64, 4, 65, 16)
    wide = resnet(flow, (3, 4, 6, 3), True, 16)
    for name, model, inputs in (
        ("ResNet-50-size training step", wide, (flow.randn(1, 3, 32, 32), flow.zeros(1, dtype=flow.int64))),
        ("48-layer GPT training step", deep, (ids, ids)),
    ):
        if args.only in name:
            compiled = graph(flow, model, inputs, flow.optim.AdamW(model.parameters(), lr=1e-4), 0)
            t = time.process_time()
            compiled.trace(*inputs)
            print(f"{name}: {time.process_time() - t:.2f} s", flush=True)


SECTIONS = {"steps": steps, "line": line, "loader": loader, "memory": memory, "compile": compiling}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benches.plans", description=__doc__)
    parser.add_argument("sections", nargs="*", help=f"{', '.join(SECTIONS)}; all by default")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--seconds", type=float, default=3.0, help="per case")
    parser.add_argument("--compile", action="store_true", help="torch.compile too")
    parser.add_argument("--isa", choices=["avx2"], help="both packages on this instruction set")
    args = parser.parse_args()
    if args.isa:
        os.environ |= {"ONEFLOW_CPU_ISA": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
        os.environ |= {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
    for name in args.sections or SECTIONS:
        SECTIONS[name](args)


if __name__ == "__main__":
    main()
