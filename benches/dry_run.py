"""Dry runs: how long they take, and how near they come to what runs.

python -m benches.dry_run gpt3          # 175 billion parameters on 1,024 devices: seconds and memory of the dry run
python -m benches.dry_run plan          # a layout of that GPT-3, planned, its dry run, and one by hand
python -m benches.dry_run world         # trace and compile of one rank, in worlds of 64 to 1,024 ranks
python -m benches.dry_run streams       # what hides behind work where communication takes a third of a step
python -m benches.dry_run processes     # two processes of this machine: step time and memory beside the dry run's;
                                        # --ranks 4 for four
python -m benches.published             # layouts whose throughput others have published (see there)
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import oneflow as torch
from oneflow import _oneflow
from oneflow.models import GPT2Config

from benches.dry_run_gpt import GPT3, Train, UntiedGPT, gpt, staged


def gpt3(layers: int, pipelined: bool) -> None:
    config = replace(GPT3, n_layers=layers)
    start = time.perf_counter()
    if pipelined:
        report = torch.dryrun.dry_run(staged, config, 8, 8, 16, 16, cluster="1024xh100")
    else:
        report = torch.dryrun.dry_run(gpt, config, 128, 8, 128, 3, True, True, cluster="1024xh100")
    took = time.perf_counter() - start
    print(report.table())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    width, rows = config.width, 2 * config.vocabulary + config.n_positions + 2
    size = (layers * (12 * width**2 + 13 * width) + rows * width) / 1e9
    traced = f"{report.trace_seconds:.1f} s of it for {len(report.classes)} traces and plans"
    print(f"{size:.1f} billion parameters; the dry run took {took:.1f} s and {peak:.2f} GB; {traced};")
    print(f"{max(c['instructions'] for c in report.classes)} instructions a rank, {report.events} events")


def plan(layers: int, micro_batches: list[int]) -> None:
    config, cluster = replace(GPT3, n_layers=layers), torch.auto_parallel.Cluster.load("1024xh100")

    def step() -> Any:
        torch.manual_seed(0)
        return Train(UntiedGPT(config), amp=True), torch.zeros(128, config.n_positions, dtype=torch.int64)

    start = time.perf_counter()
    with torch.dryrun.described(cluster):
        graph, tokens = step()
        found = torch.auto_parallel.plan(graph, tokens, tokens, cluster=cluster, micro_batches=micro_batches)
    planned = time.perf_counter() - start

    def job() -> Any:
        graph, tokens = step()
        found.apply(graph)
        return (graph, *found.place(tokens, tokens))

    print(found.table()[:4000])
    print(f"planned in {planned:.1f} s", flush=True)
    report = torch.dryrun.dry_run(job, cluster=cluster)
    took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(report.table())
    print(f"planned in {planned:.1f} s, with the dry run {took:.1f} s, {peak:.2f} GB")
    hand = torch.dryrun.dry_run(staged, config, 8, 8, 16, 16, cluster=cluster)
    for name, made in (("planned", report), ("tp 8, pp 16, dp 8 by hand", hand)):
        print(f"{name}: {made.step_seconds:.3f} s a step, estimated peak {made.peak / 1e9:.1f} GB, fits {made.fits}")
    print(f"the plan's own estimate: {found.seconds:.3f} s, {found.peak / 1e9:.1f} GB")


def world(sizes: list[int]) -> None:
    config = GPT2Config(vocabulary=50304, n_positions=1024, n_layers=12, n_heads=16, width=1024, dropout=0.0)
    for n in sizes * 2:
        report = torch.dryrun.dry_run(gpt, config, n // 8, 8, n // 8, 3, cluster=described(n))
        print(f"{n} ranks: trace and compile {report.trace_seconds:.2f} s, simulation {report.simulate_seconds:.2f} s")


def streams() -> None:
    config = GPT2Config(vocabulary=1024, n_positions=64, n_layers=8, n_heads=8, width=512, dropout=0.0)
    layer = 4 * (12 * config.width**2 + 13 * config.width)

    def run(zero: int, bandwidth: float) -> Any:
        link = torch.auto_parallel.Link(0.0, bandwidth)
        described = torch.auto_parallel.Cluster("slow link", 1, 4, 1e11, 1e12, 1e9, link, link)
        return torch.dryrun.dry_run(gpt, config, 4, 1, 32, zero, cluster=described)

    for zero in range(4):
        quick = run(zero, 1e15)
        found = run(zero, 3 * max(r["sent"] for r in quick.ranks) / quick.step_seconds)
        rank, memory = found.ranks[0], found.classes[0]["memory"]
        hidden = rank["hidden"] / (rank["hidden"] + rank["communication"])
        held = ", ".join(f"{name} {n / layer:.2f}" for name, n in memory.items())
        print(
            f"ZeRO {zero}: {hidden:.3f} hidden, {found.step_seconds / quick.step_seconds:.3f} of the step without "
            f"communication; layers held: {found.peak / layer:.2f} ({held})"
        )


def described(n: int) -> Any:
    return replace(torch.auto_parallel.Cluster.load("1024xh100"), name=f"{n}xh100", hosts=n // 8)


SMALL = {
    "gpt": GPT2Config(vocabulary=4096, n_positions=128, n_layers=4, n_heads=8, width=256, dropout=0.0),
    "wide": GPT2Config(vocabulary=1024, n_positions=64, n_layers=2, n_heads=8, width=512, dropout=0.0),
}


def layouts(n: int) -> dict[str, tuple[int, int, int]]:
    """By name the copies, the ranks of one, and the stage of ZeRO."""
    mixed = {"data x tensor": (n // 2, 2, 0)} if n > 2 else {}
    return {"data": (n, 1, 0), "tensor": (1, n, 0), **mixed, "zero 2": (n, 1, 2), "zero 3": (n, 1, 3)}


def member(model: str, layout: str) -> None:
    """One rank of several: measures its processors and links, runs, and prints what it took."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group()
    cluster = torch.dryrun.calibrate("processes")
    dp, tp, zero = layouts(torch.distributed.get_world_size())[layout]
    gc.collect()
    before, _ = _oneflow._host_memory(False)
    graph, *inputs = gpt(SMALL[model], dp, tp, 8, zero)
    graph(*inputs)
    seconds = torch.dryrun.measure(graph, *inputs)
    gc.collect()
    _oneflow._host_memory(True)
    times = []
    for _ in range(15):
        torch.distributed.barrier()
        start = time.perf_counter()
        graph(*inputs)
        times.append(time.perf_counter() - start)
    if torch.distributed.get_rank() == 0:
        peak = _oneflow._host_memory(False)[1] - before
        inside = cluster.inside
        own = [cluster.flops, cluster.memory_bandwidth, cluster.launch, cluster.call, cluster.cores]
        numbers = [*own, inside.latency, inside.bandwidth]
        print(json.dumps([statistics.median(times), peak, seconds, numbers]), flush=True)


def processes(n: int) -> None:
    """Each job in processes of its own: an allocator hands out larger pieces where those of a job before are left."""
    env = {**os.environ, "WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517"}
    for model, layout in itertools.product(SMALL, layouts(n)):
        command = [sys.executable, "-m", "benches.dry_run", "member", "--job", model, layout]
        ranks = [
            subprocess.Popen(command, env={**env, "RANK": r, "LOCAL_RANK": r}, stdout=subprocess.PIPE, text=True)
            for r in map(str, range(n))
        ]
        told, *_ = [rank.communicate()[0].splitlines() for rank in ranks]
        took, peak, seconds, numbers = json.loads(told[-1])
        flops, bandwidth, launch, call, cores, latency, speed = numbers
        link = torch.auto_parallel.Link(latency, speed)
        cluster = torch.auto_parallel.Cluster(
            "processes", 1, n, flops, bandwidth, 1e10, link, link, launch=launch, call=call, cores=cores
        )
        dp, tp, zero = layouts(n)[layout]
        options = (SMALL[model], dp, tp, 8, zero)
        report = torch.dryrun.dry_run(gpt, *options, cluster=cluster, seconds=seconds)
        plain = torch.dryrun.dry_run(gpt, *options, cluster=cluster)
        print(
            f"{model} {layout}: {1e3 * took:.2f} ms; dry run {report.step_seconds / took:.3f} of it with measured "
            f"instructions, {plain.step_seconds / took:.3f} by operations and bytes; memory {report.peak / peak:.4f} "
            f"of {peak / 1e6:.1f} MB; {flops / 1e9:.1f} GFLOP/s, {bandwidth / 1e9:.1f} GB/s, links "
            f"{1e6 * latency:.1f} us, {speed / 1e9:.2f} GB/s",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["gpt3", "gpt3-pipeline", "plan", "world", "streams", "processes", "member"])
    parser.add_argument("--layers", type=int, default=96)
    parser.add_argument("--ranks", type=int, default=2, help="of processes")
    parser.add_argument("--job", nargs=2, default=["gpt", "data"], help="of a member: the model and the layout")
    options = parser.parse_args()
    if options.what.startswith("gpt3"):
        gpt3(options.layers, options.what != "gpt3")
    elif options.what == "plan":
        plan(options.layers, [16])
    elif options.what == "world":
        world([64, 256, 1024])
    elif options.what == "streams":
        streams()
    elif options.what == "processes":
        processes(options.ranks)
    else:
        member(*options.job)


if __name__ == "__main__":
    main()
