"""`python -m benches.checkpoint [--gigabytes 1]`: what an asynchronous sharded save takes from the steps of a training.

Two processes train, each with half of the parameters and states. Steps are timed without a save, then while one runs:
what the call itself blocks, and how much longer the steps are until the save is complete, over the time of the write.
Half of the saves copy tensors beside the first step (`DefaultStager`): what it then waits for the copies counts, too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any


def rank_of_two(rank: int, gigabytes: float, folder: str, products: int, waits: float) -> None:
    import oneflow
    import oneflow.distributed as dist
    import oneflow.distributed.checkpoint as dcp
    from oneflow.distributed.checkpoint.staging import DefaultStager

    flow: Any = oneflow
    flow.set_num_threads(1)
    dist.init_process_group()
    placement = flow.placement("cpu", [0, 1])
    rows = int(gigabytes * 1e9 / 4 / 4096 / 8)
    state = {
        f"weight_{i}": flow.full((2 * (rows // 2), 4096), float(i), placement=placement, sbp=flow.sbp.split(0))
        for i in range(8)
    }
    a, b = flow.randn(512, 512), flow.randn(512, 512)

    def step() -> float:
        start = time.perf_counter()
        for _ in range(products):
            a @ b
        took = time.perf_counter() - start
        # As for communication: the core is idle.
        time.sleep(took * waits / (1 - waits))
        return time.perf_counter() - start

    for _ in range(20):
        step()
    quiet = statistics.median(step() for _ in range(50))
    for turn in range(8):
        beside = turn % 2 == 1
        dist.barrier()
        start = time.perf_counter()
        found: Any = dcp.async_save(
            state,
            checkpoint_id=os.path.join(folder, str(turn)),
            async_stager=DefaultStager() if beside else None,
        )
        blocked = time.perf_counter() - start
        steps, future = [], found
        if beside:
            future = found.upload_completion
            steps.append(step())
            # Here an optimizer would change the parameters.
            asked = time.perf_counter()
            found.staging_completion.result()
            blocked += time.perf_counter() - asked
        while not future.done():
            steps.append(step())
        future.result()
        whole = time.perf_counter() - start
        slower = max(0.0, sum(steps) - quiet * len(steps))
        if rank == 0:
            taken = blocked + slower
            print(
                f"save {turn}, copied {'beside a step' if beside else 'first'}: {whole * 1e3:.0f} ms, "
                f"blocked {blocked * 1e3:.0f} ms, {len(steps)} steps longer by "
                f"{slower * 1e3:.0f} ms: {taken / whole:.3f} of the write's time",
                flush=True,
            )
        dist.barrier()
        if rank == 0:
            shutil.rmtree(os.path.join(folder, str(turn)))
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="of both ranks together")
    parser.add_argument("--folder", help="where to write; a temporary folder by default")
    parser.add_argument("--products", type=int, default=8, help="of matrices of 512 by 512 in a step")
    parser.add_argument("--waits", type=float, default=0, help="share of a step in which its rank waits for others")
    args = parser.parse_args()
    if "RANK" in os.environ:
        rank_of_two(int(os.environ["RANK"]), args.gigabytes, args.folder, args.products, args.waits)
        return
    with socket.socket() as probe, tempfile.TemporaryDirectory(dir=args.folder) as folder:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
        probe.close()
        own = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        command = [sys.executable, "-m", "benches.checkpoint", *sys.argv[1:], "--folder", folder]
        ranks = [
            subprocess.Popen(command, env={**os.environ, **own, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(2)
        ]
        status = max(rank.wait() for rank in ranks)
    sys.exit(status)


if __name__ == "__main__":
    main()
