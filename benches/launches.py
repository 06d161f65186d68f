"""Work that one eager training step of a GPT-2 issues to a GPU, by op and by kernel, counted on the emulated driver.

Needs no GPU: ``python -m benches.launches``. The emulated driver is idle: it takes work of real sizes and does none of
it. Kernels, calls of libraries, memsets and copies on the device count alike. An op is one that a program or a gradient
calls; what its composition calls belongs to it. ``--compare`` counts the ops that PyTorch dispatches for the same
forward and backward on the processor, views left out: on a GPU most of them are a launch, and gradients of norms and of
attention two and three.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from benches.emulated import start_again
from benches.models import GPT2, gpt

ROOM = 1 << 20


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m benches.launches", description=__doc__.partition("\n")[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=8, help="sequences of 1024 tokens (8)")
    parser.add_argument("--autocast", action="store_true", help="forward in bfloat16, parameters in float32")
    parser.add_argument("--clip", action="store_true", help="clip the gradients' norm before the optimizer")
    parser.add_argument("--accumulate", action="store_true", help="add to the gradients of the step before")
    parser.add_argument("--compare", action="store_true", help="count PyTorch's ops as well")
    parser.add_argument("--top", type=int, default=30, help="lines of the table (30)")
    parser.add_argument("--started", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.started:
        start_again("benches.launches", arguments, idle=1)
    print(report(options))
    if options.compare:
        print(torch_ops(options))
    return 0


def issued() -> Callable[[], list[str]]:
    """A function that returns the names of all work that was issued since its last call."""
    driver = ctypes.CDLL("libcuda.so.1")
    driver.emulator_issued.restype = ctypes.c_long
    buffer = ctypes.create_string_buffer(ROOM)

    def take() -> list[str]:
        text = b""
        while n := driver.emulator_issued(buffer, ROOM):
            text += buffer.raw[:n]
        return text.decode().splitlines()

    take()
    return take


@contextlib.contextmanager
def by_op(flow: Any, take: Callable[[], list[str]], rows: Counter[tuple[str, str]]) -> Iterator[None]:
    """Count what each op issues into `rows`; what lies between two ops belongs to none."""

    def around(op: str, _given: dict[str, Any], _written: Any, run: Callable[[], list[Any]]) -> list[Any]:
        rows.update(("between ops", name) for name in take())
        results = run()
        rows.update((op, name) for name in take())
        return results

    flow._C._push_interceptor(around)
    try:
        yield
    finally:
        flow._C._pop_interceptor()
        rows.update(("between ops", name) for name in take())


def steps(torch: Any, model: Any, ids: Any, options: argparse.Namespace) -> dict[str, Callable[[], None]]:
    """The parts of a training step of either package."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses: list[Any] = []

    def forward() -> None:
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=options.autocast):
            losses.append(model(ids, ids))

    def update() -> None:
        if options.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if not options.accumulate:
            optimizer.zero_grad()

    return {"forward": forward, "backward": lambda: losses.pop().backward(), "optimizer": update}


def torch_ops(options: argparse.Namespace) -> str:
    """What PyTorch dispatches on the processor for a step of small sizes, without views."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    counts: Counter[str] = Counter()

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            given = {t.untyped_storage().data_ptr() for t in tree_leaves(args) if isinstance(t, torch.Tensor)}
            made = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
            is_view = bool(made) and all(t.untyped_storage().data_ptr() in given for t in made)
            if not is_view or func._schema.is_mutable:
                counts[func._schema.name] += 1
            return out

    sizes = {"vocabulary": 64, "layers": options.layers, "width": 32, "heads": 2, "length": 16}
    parts = steps(torch, gpt(torch, **sizes), torch.zeros(2, 16, dtype=torch.int64), options)
    lines, total = [], 0
    for name in ("forward", "backward"):
        part = parts[name]
        counts.clear()
        with Counting():
            part()
        total += sum(counts.values())
        lines.append(f"{name}: " + ", ".join(f"{op.removeprefix('aten::')} {n}" for op, n in counts.most_common(12)))
    return "\n".join([f"PyTorch {torch.__version__} dispatches {total} ops that are no views", *lines])


def report(options: argparse.Namespace) -> str:
    import oneflow as flow

    flow.manual_seed(0)
    sizes = {**GPT2, "layers": options.layers}
    with flow.device("cuda"):
        model = gpt(flow, **sizes)
    ids = flow.zeros((options.batch, sizes["length"]), dtype=flow.int64, device="cuda")
    parts = steps(flow, model, ids, options)

    def step(around: Callable[[str], contextlib.AbstractContextManager[None]]) -> None:
        for name, part in parts.items():
            with around(name):
                part()

    for _ in range(2):
        step(lambda _: contextlib.nullcontext())
    take = issued()
    step(lambda _: contextlib.nullcontext())
    alone = len(take())
    phases: dict[str, Counter[tuple[str, str]]] = {name: Counter() for name in parts}
    step(lambda phase: by_op(flow, take, phases[phase]))
    lines = [f"{'phase':10} {'op':34} {'issued':>6}  kernels"]
    of_op: Counter[tuple[str, str]] = Counter()
    for phase, rows in phases.items():
        for (op, _), n in rows.items():
            of_op[phase, op] += n
    for (phase, op), n in of_op.most_common(options.top):
        kernels = Counter({name: m for (o, name), m in phases[phase].items() if o == op})
        text = ", ".join(f"{name} {m}" for name, m in kernels.most_common(6))
        lines.append(f"{phase:10} {op:34} {n:6}  {text}")
    totals = ", ".join(f"{phase} {sum(rows.values())}" for phase, rows in phases.items())
    lines.append(f"together {sum(sum(rows.values()) for rows in phases.values())}: {totals}; {alone} when nobody looks")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
