"""Threads that resize, replace and free tensors under running ops: `make races`. It runs for minutes.

A separate process runs each race for SECONDS. It fails if the process dies, or if an op returns a result that
fits no state which the tensors ever had.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time

import oneflow
from oneflow import Tensor

# Above the number of elements at which ops let other threads run.
LARGE, SMALL = 400_000, 1_000


def resize(x: Tensor) -> None:
    x.resize_(SMALL)
    x.untyped_storage().resize_(4 * SMALL)
    x.resize_(LARGE).fill_(1.0)


def replace(x: Tensor) -> None:
    x.data = oneflow.ones(SMALL)
    x.data = oneflow.ones(LARGE)


def set_other(x: Tensor) -> None:
    x.set_(oneflow.ones(SMALL))
    x.set_(oneflow.ones(LARGE))


def write_out(x: Tensor) -> None:
    oneflow.ones(SMALL, out=x)
    oneflow.ones(LARGE, out=x)


def add(x: Tensor) -> None:
    result = x + 1
    assert result.numel() in (SMALL, LARGE), result.shape


def reduce(x: Tensor) -> None:
    x.sum()
    x.view(-1, 10).softmax(1)


def product(x: Tensor) -> None:
    matrix = x.view(-1, 100)
    matrix.t() @ matrix


def in_place(x: Tensor) -> None:
    x.mul_(1.0)


def list_of(x: Tensor) -> None:
    oneflow.cat([x, x])
    oneflow._foreach_add([x, x], 1.0)


def differentiate(x: Tensor) -> None:
    w = oneflow.ones(x.shape, requires_grad=True)
    (w * x).exp().sum().backward()


def to_numpy(x: Tensor) -> None:
    x.clone().numpy()


WRITERS = [resize, replace, set_other, write_out]
READERS = [add, reduce, product, in_place, list_of, differentiate, to_numpy]
# Errors that an op may raise for sizes that changed between two calls of one function, or for memory that is gone.
ALLOWED = (RuntimeError, ValueError, IndexError)


def race(writer, reader, seconds: float) -> None:
    """Run both on one tensor, the reader on two threads."""
    x = oneflow.ones(LARGE)
    end = time.monotonic() + seconds
    wrong: list[str] = []
    counts = [0, 0, 0]

    def repeat(i: int, f) -> None:
        while time.monotonic() < end and not wrong:
            try:
                f(x)
            except ALLOWED as error:
                if "internal error" in str(error):
                    wrong.append(f"{f.__name__}: {error!r}")
            except BaseException as error:
                wrong.append(f"{f.__name__}: {error!r}")
            counts[i] += 1

    threads = [threading.Thread(target=repeat, args=(i, f)) for i, f in enumerate((writer, reader, reader))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if wrong:
        raise SystemExit(wrong[0])
    if min(counts) == 0:
        raise SystemExit(f"a thread did nothing: {counts}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each pair of a writer and a reader")
    parser.add_argument("--pair", nargs=2, help="one pair, in this process")
    options = parser.parse_args()
    if options.pair:
        named = {f.__name__: f for f in [*WRITERS, *READERS]}
        race(*(named[name] for name in options.pair), options.seconds)
        return
    failed = []
    for writer in WRITERS:
        for reader in READERS:
            pair = [writer.__name__, reader.__name__]
            command = [sys.executable, __file__, "--seconds", str(options.seconds), "--pair", *pair]
            done = subprocess.run(command, capture_output=True, text=True, timeout=options.seconds * 10 + 60)
            last = (done.stderr.strip().splitlines() or [""])[-1]
            print(
                "FAIL" if done.returncode else "ok  ",
                " against ".join(pair),
                last if done.returncode else "",
                flush=True,
            )
            if done.returncode:
                failed.append(pair)
    if failed:
        raise SystemExit(f"{len(failed)} races failed")


if __name__ == "__main__":
    main()
