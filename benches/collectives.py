"""`python -m benches.collectives`: collectives of two processes on one host beside PyTorch's gloo, in one run.

Each row is our time over gloo's, medians of interleaved samples of wall time. A second table is taken beside a process
that keeps one core busy; the last line says what a matched global op costs beside the local one.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

SIZES = (64, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 8 << 20, 64 << 20)
NAMES = ("all_reduce", "all_gather", "all_to_all", "broadcast", "reduce_scatter", "send and receive")
Call = Callable[[], object]


def calls(package: Any, name: str, n_bytes: int, rank: int) -> Call:
    """One operation of two ranks over as many bytes a rank."""
    dist = package.distributed
    count = n_bytes // 4
    data, whole, half = package.ones(count), package.ones(2 * count), package.ones(max(1, count // 2))
    other = 1 - rank

    def both_ways() -> None:
        if rank == 0:
            dist.send(data, other)
            dist.recv(data, other)
        else:
            dist.recv(data, other)
            dist.send(data, other)

    return {
        "all_reduce": lambda: dist.all_reduce(data, op=dist.ReduceOp.MAX),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, data),
        "all_to_all": lambda: dist.all_to_all_single(whole[:count], data),
        "broadcast": lambda: dist.broadcast(data, 0),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(half, data),
        "send and receive": both_ways,
    }[name]


def seconds(call: Call, n: int, barrier: Call) -> float:
    barrier()
    start = time.perf_counter()
    for _ in range(n):
        call()
    return (time.perf_counter() - start) / n


class Pair:
    """This process and the other one: they agree on how often a call is made."""

    def __init__(self, rank: int, budget: float) -> None:
        import oneflow
        import torch

        self.rank, self.budget, self.packages = rank, budget, (oneflow, torch)
        self.barrier = torch.distributed.barrier

    def agreed(self, value: float) -> float:
        import torch

        found = torch.tensor([value], dtype=torch.float64)
        torch.distributed.broadcast(found, 0)
        return float(found.item())

    def medians(self, pair: tuple[Call, ...]) -> list[float]:
        """Seconds a call of each, in turns."""
        counts = []
        for call in pair:
            seconds(call, 2, self.barrier)
            once = self.agreed(seconds(call, 3, self.barrier))
            counts.append(max(1, min(2000, int(0.02 / max(once, 1e-7)))))
        samples: list[list[float]] = [[] for _ in pair]
        n_rounds = int(self.agreed(max(5, self.budget / (0.02 * len(pair)))))
        for _ in range(n_rounds):
            for call, n, into in zip(pair, counts, samples, strict=True):
                into.append(seconds(call, n, self.barrier))
        return [statistics.median(into) for into in samples]


def table(pair: Pair, title: str, names: tuple[str, ...]) -> dict[tuple[str, int], float]:
    if pair.rank == 0:
        print(f"\n{title}: time of gloo's\n{'':18}" + "".join(f"{words(size):>9}" for size in SIZES), flush=True)
    ours: dict[tuple[str, int], float] = {}
    for name in names:
        row = ""
        for size in SIZES:
            try:
                mine, theirs = pair.medians(tuple(calls(package, name, size, pair.rank) for package in pair.packages))
            except (RuntimeError, NotImplementedError, ValueError) as error:
                row += f"{type(error).__name__[:8]:>9}"
                break
            ours[name, size] = mine
            row += f"{mine / theirs:9.3f}"
        if pair.rank == 0:
            print(f"{name:18}{row}", flush=True)
    return ours


def words(n_bytes: int) -> str:
    for unit, factor in (("MB", 1 << 20), ("KB", 1 << 10)):
        if n_bytes >= factor:
            return f"{n_bytes // factor} {unit}"
    return f"{n_bytes} B"


def spin() -> None:
    while True:
        pass


@contextlib.contextmanager
def busy_core(on: bool) -> Iterator[None]:
    busy = multiprocessing.get_context("spawn").Process(target=spin, daemon=True) if on else None
    if busy is not None:
        busy.start()
        time.sleep(0.5)
    try:
        yield
    finally:
        if busy is not None:
            busy.kill()
            busy.join()


def matched_global_op(pair: Pair) -> None:
    """What an op on global tensors of equal layouts costs beside the op on their local parts."""
    flow = pair.packages[0]
    local = flow.ones(64)
    whole = flow.ones(128).to_global(flow.placement("cpu", [0, 1]), flow.sbp.split(0))
    alone, matched = pair.medians((lambda: local + local, lambda: whole + whole))
    if pair.rank == 0:
        print(
            f"\nadd of 64 elements a rank: local {alone * 1e6:.2f} us, global {matched * 1e6:.2f} us: "
            f"+ {(matched - alone) * 1e6:.2f} us",
            flush=True,
        )


def rank_of_two(rank: int, budget: float, names: tuple[str, ...]) -> None:
    import oneflow
    import torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=os.environ["BENCH_STORE"], rank=rank, world_size=2)
    oneflow.distributed.init_process_group("gloo")
    pair = Pair(rank, budget)
    quiet = table(pair, "quiet", names)
    with busy_core(rank == 0):
        loaded = table(pair, "beside a process that keeps a core busy", names)
    if rank == 0:
        print(f"\nour time with the busy core, of its quiet self\n{'':18}" + "".join(f"{words(s):>9}" for s in SIZES))
        for name in names:
            row = (loaded[name, s] / quiet[name, s] if (name, s) in loaded else float("nan") for s in SIZES)
            print(f"{name:18}" + "".join(f"{value:9.2f}" for value in row), flush=True)
    matched_global_op(pair)
    oneflow.distributed.destroy_process_group()
    torch.distributed.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], help="operations; all by default")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each number")
    args = parser.parse_args()
    if "BENCH_STORE" in os.environ:
        rank_of_two(int(os.environ["RANK"]), args.seconds, tuple(args.names) or NAMES)
        return
    ports = []
    for _ in range(2):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            ports.append(str(probe.getsockname()[1]))
    own = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": ports[0], "BENCH_STORE": f"tcp://127.0.0.1:{ports[1]}"}
    own |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benches.collectives", *sys.argv[1:]]
    ranks = [
        subprocess.Popen(command, env={**os.environ, **own, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(2)
    ]
    sys.exit(max(rank.wait() for rank in ranks))


if __name__ == "__main__":
    main()
