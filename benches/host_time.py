"""Time that the host takes to issue one op to a GPU, over a driver that does nothing.

Needs no GPU: ``python -m benches.host_time``. The emulated driver returns from each launch at once, so what is measured
is this package's share: the call from Python, shapes, memory, arguments. Processor time of one thread in nanoseconds,
of several rounds the least. Products go through the emulated cuBLASLt, whose work on its own objects counts, too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from benches.emulated import start_again

# The bar for one op.
BAR = 700


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m benches.host_time", description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=20_000, help="calls a round (20,000)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--started", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.started:
        start_again("benches.host_time", arguments, idle=2)
    print(report(options))
    return 0


def rows(flow: Any) -> dict[str, Callable[[], Any]]:
    """One op each, on operands that are small and made before."""
    with flow.device("cuda"):
        x, y, row = flow.ones(16, 16), flow.ones(16, 16), flow.ones(16)
        image = flow.ones(2, 16, 8, 8)
        weight, bias, ids = flow.ones(16, 16), flow.ones(16), flow.zeros(16, dtype=flow.int64)
    functional = flow.nn.functional
    return {
        "x + y": lambda: x + y,
        "x + 1": lambda: x + 1.0,
        "x + row": lambda: x + row,
        "x.add_(y)": lambda: x.add_(y),
        "relu": lambda: flow.relu(x),
        "gelu": lambda: functional.gelu(x),
        "where": lambda: flow.where(x > y, x, y),
        "x.to(bfloat16)": lambda: x.to(flow.bfloat16),
        "x.t().contiguous()": lambda: x.t().contiguous(),
        "channels last": lambda: image.contiguous(memory_format=flow.channels_last),
        "zeros": lambda: flow.zeros(16, 16, device="cuda"),
        "sum": lambda: x.sum(),
        "sum of rows": lambda: x.sum(1),
        "softmax": lambda: flow.softmax(x, 1),
        "layer_norm": lambda: functional.layer_norm(x, (16,), bias, bias),
        "embedding": lambda: functional.embedding(ids, weight),
        "cat": lambda: flow.cat([x, y]),
        "matmul": lambda: x @ y,
        "linear": lambda: functional.linear(x, weight, bias),
        "dropout": lambda: functional.dropout(x, 0.1),
        "empty (no launch)": lambda: flow.empty(16, 16, device="cuda"),
        "view (no launch)": lambda: x.view(256),
    }


def nanoseconds(call: Callable[[], Any], options: argparse.Namespace) -> float:
    def once() -> float:
        start = time.thread_time_ns()
        for _ in range(options.calls):
            call()
        return (time.thread_time_ns() - start) / options.calls

    for _ in range(1000):
        call()
    return min(once() for _ in range(options.rounds))


def report(options: argparse.Namespace) -> str:
    import oneflow as flow

    lines = [f"{'op':22} {'ns':>6} {'of the bar':>11}"]
    empty = nanoseconds(lambda: None, options)
    with flow.no_grad():
        for name, call in rows(flow).items():
            if options.only in name:
                ns = nanoseconds(call, options) - empty
                lines.append(f"{name:22} {ns:6.0f} {ns / BAR:11.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
