"""`python -m benches.shaped_link`: data parallel training over a link of 1 Gbit/s between two network namespaces.

Needs root, iproute2 and tbf. Prints what an all-reduce of 16 MiB among four ranks, two on each side, takes of the
wire's time; how much of its communication DistributedDataParallel hides behind the backward, one rank on each side;
and the step of the same training as an nn.Graph beside it.

A step without communication (`no_sync`) and an all-reduce of all gradients alone are measured in the same processes, in
turns with whole steps: hidden is what of the all-reduce's time the step does not show. Where all cores compute, what
the all-reduce needs of a core (not counting what the system does outside of the process) cannot be hidden.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

NAMES, LINKS = ("bench-a", "bench-b"), ("benchva", "benchvb")
GBIT = 1e9 / 8
ALL_REDUCE_BYTES = 16 << 20


def ip(*command: str) -> None:
    subprocess.run(["ip", *command], check=True)


@contextlib.contextmanager
def two_hosts() -> Iterator[None]:
    """Two namespaces, each with one end of a link that lets 1 Gbit/s through in each direction."""
    try:
        for name in NAMES:
            ip("netns", "add", name)
        ip("link", "add", LINKS[0], "type", "veth", "peer", "name", LINKS[1])
        for place, (name, link) in enumerate(zip(NAMES, LINKS, strict=True)):
            ip("link", "set", link, "netns", name)
            ip("-n", name, "addr", "add", f"10.78.0.{place + 1}/24", "dev", link)
            for device in (link, "lo"):
                ip("-n", name, "link", "set", device, "up")
            shape = ["tbf", "rate", "1gbit", "burst", "256kb", "latency", "50ms"]
            subprocess.run(["ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", link, "root", *shape], check=True)
        yield
    finally:
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name], check=False)


def launch(program: str, ranks_per_host: int, port: int) -> Any:
    """Run a program as one job over both hosts; return the JSON that rank 0 prints."""
    jobs = []
    for node, name in enumerate(NAMES):
        options = ["--nnodes", "2", "--nproc-per-node", str(ranks_per_host), "--node-rank", str(node)]
        options += ["--master-addr", "10.78.0.1", "--master-port", str(port)]
        command = [sys.executable, "-m", "oneflow.distributed.launch", *options, "--no-python"]
        command += [sys.executable, "-c", program]
        env = {**os.environ, "ONEFLOW_JOB_SECRET": "a secret of the bench", "OMP_NUM_THREADS": "1"}
        jobs.append(
            subprocess.Popen(["ip", "netns", "exec", name, *command], env=env, stdout=subprocess.PIPE, text=True)
        )
    said = [job.communicate(timeout=300)[0] for job in jobs]
    return json.loads(next(line for line in said[0].splitlines() if line[:1] in "[{0123456789" and line))


ALL_REDUCE = f"""
import json, time, oneflow as flow, oneflow.distributed as dist
data = flow.ones({ALL_REDUCE_BYTES} // 4)
dist.all_reduce(data)
times = []
for _ in range(8):
    dist.barrier()
    start = time.perf_counter()
    dist.all_reduce(data, op=dist.ReduceOp.MAX)
    times.append(time.perf_counter() - start)
if dist.get_rank() == 0:
    print(json.dumps(sorted(times)[len(times) // 2]))
"""

TRAINING = """
import contextlib, json, statistics, time, oneflow as flow, oneflow.distributed as dist
from oneflow.nn.parallel import DistributedDataParallel
flow.set_num_threads(1)
dist.init_process_group()
WIDTH, LAYERS, BATCH, STEPS = %(width)d, %(layers)d, %(batch)d, %(steps)d

def model():
    flow.manual_seed(0)
    layers = [m for _ in range(LAYERS) for m in (flow.nn.Linear(WIDTH, WIDTH), flow.nn.Tanh())]
    return flow.nn.Sequential(*layers)

x = flow.randn(BATCH, WIDTH)
eager = DistributedDataParallel(model())
optimizer = flow.optim.SGD(eager.parameters(), lr=0.001)
gradients = flow.zeros(sum(p.numel() for p in eager.parameters()))

def step(synchronizes=True):
    with contextlib.nullcontext() if synchronizes else eager.no_sync():
        eager(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()

class Train(flow.nn.Graph):
    def __init__(self):
        super().__init__()
        self.model = model().to_global(flow.placement("cpu", [0, 1]), flow.sbp.broadcast)
        self.add_optimizer(flow.optim.SGD(self.model.parameters(), lr=0.001))

    def build(self, x):
        loss = self.model(x).square().mean()
        loss.backward()
        return loss

graph = Train()
whole = x.to_global(flow.placement("cpu", [0, 1]), flow.sbp.split(0))
kinds = {
    "step": step,
    "compute": lambda: step(False),
    "communication": lambda: dist.all_reduce(gradients, op=dist.ReduceOp.MAX),
    "graph": lambda: graph(whole),
}
times, busy = {name: [] for name in kinds}, {name: [] for name in kinds}
for turn in range(STEPS + 2):
    for name, call in kinds.items():
        dist.barrier()
        start, of_cores = time.perf_counter(), time.process_time()
        call()
        if turn >= 2:
            times[name].append(time.perf_counter() - start)
            busy[name].append(time.process_time() - of_cores)
found = {name: statistics.median(all_) for name, all_ in times.items()}
found["busy"] = statistics.median(busy["communication"])
found["bytes"] = gradients.numel() * 4
if dist.get_rank() == 0:
    print(json.dumps(found))
dist.destroy_process_group()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=512, help="rows a rank: more rows, more to hide behind")
    parser.add_argument("--layers", type=int, default=8, help="linear layers: the gradients of the first one come last")
    parser.add_argument("--width", type=int, default=1024, help="of each layer")
    parser.add_argument("--steps", type=int, default=9)
    args = parser.parse_args()
    with two_hosts():
        took, bound = launch(ALL_REDUCE, 2, 29611), ALL_REDUCE_BYTES / GBIT
        print(
            f"four ranks, all-reduce of 16 MiB: {took * 1e3:.0f} ms, {took / bound:.2f} of the wire's time", flush=True
        )
        t = launch(TRAINING % vars(args), 1, 29612)
    hidden = 1 - (t["step"] - t["compute"]) / t["communication"]
    print(
        f"two ranks, {t['bytes'] / 1e6:.1f} MB of gradients: a step {t['step'] * 1e3:.0f} ms, without communication "
        f"{t['compute'] * 1e3:.0f} ms, communication alone {t['communication'] * 1e3:.0f} ms: {hidden:.2f} of it "
        f"hidden; {t['busy'] * 1e3:.0f} ms of it need a core"
    )
    print(f"the same as a graph: {t['graph'] * 1e3:.0f} ms, {t['graph'] / t['step']:.2f} of the step of DDP")


if __name__ == "__main__":
    main()
