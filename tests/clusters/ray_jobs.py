"""Jobs of a Ray cluster on this machine, run in an environment that has Ray; prints what it found as a line of JSON.

``python ray_jobs.py train N`` trains N ranks as ``train.py`` does. ``lost FOLDER`` trains two ranks on two nodes with a
checkpoint each step, and takes a node away in the middle. ``faults`` tries what fails.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import oneflow as torch
import oneflow.distributed as dist
import oneflow.distributed.checkpoint as dcp
import ray
import train
from oneflow.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from oneflow.distributed.ray import run
from ray.cluster_utils import Cluster

N_STEPS, LOST_AT = 8, 4


def curve(mode: str) -> list[float]:
    """What ``train.py`` prints on rank 0."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        train.main(mode)
    return json.loads(output.getvalue()) if output.getvalue() else []


def resumed(folder: str) -> dict[str, Any]:
    """Train a linear layer; after a restart go on from the checkpoint. Waits at a step until a node has been taken."""
    dist.init_process_group("gloo")
    start = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    step, losses = 0, []
    checkpoint = Path(folder, "checkpoint")
    if checkpoint.exists():
        weights, states = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": states, "step": 0}
        dcp.load(state, checkpoint_id=checkpoint)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        step = state["step"]
    first = step
    while step < N_STEPS:
        torch.manual_seed(100 + step)
        x = torch.randn(8, 4)[dist.get_rank() * 4 :][:4]
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        losses.append(mean.item())
        step += 1
        weights, states = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": states, "step": step}, checkpoint_id=checkpoint)
        if step == LOST_AT and start == 0 and Path(folder, "take").exists():
            Path(folder, f"reached{dist.get_rank()}").write_text(ray.get_runtime_context().get_node_id())
            time.sleep(600)
    return {"start": start, "first": first, "losses": losses, "node": os.environ["GROUP_RANK"]}


def lost(folder: str) -> dict[str, Any]:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
    ray.init(address=cluster.address, log_to_driver=False)
    whole = run(resumed, str(Path(folder, "whole")), num_workers=2, placement_strategy="SPREAD")
    broken = Path(folder, "broken")
    broken.mkdir()
    (broken / "take").touch()

    def take() -> None:
        reached = [broken / f"reached{rank}" for rank in range(2)]
        while not all(path.exists() and path.read_text() for path in reached):
            time.sleep(0.1)
        node = next(n for n in nodes if n.node_id == reached[1].read_text())
        cluster.remove_node(node, allow_graceful=False)

    threading.Thread(target=take).start()
    again = run(resumed, str(broken), num_workers=2, placement_strategy="SPREAD", max_restarts=1)
    return {"whole": whole, "again": again}


def fails(rank: int) -> None:
    if dist.get_rank() == rank:
        raise ValueError(f"rank {rank} does not like it")
    dist.barrier()


def dies() -> None:
    if dist.get_rank() == 1:
        os._exit(7)
    dist.barrier()


def faults() -> dict[str, str]:
    ray.init("local", num_cpus=2, log_to_driver=False)
    found = {}
    for name, call in {
        "raises": lambda: run(fails, 1, num_workers=2),
        "dies": lambda: run(dies, num_workers=2),
        "no room": lambda: run(dist.get_rank, num_workers=3, timeout=2),
        "none": lambda: run(dist.get_rank, num_workers=0),
    }.items():
        try:
            call()
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    # Nothing of the failed jobs is left: the two processors are free again.
    found["after"] = str(run(dist.get_rank, num_workers=2, timeout=60))
    return found


def main() -> None:
    what, *arguments = sys.argv[1:]
    if what == "train":
        ray.init("local", num_cpus=int(arguments[0]), log_to_driver=False)
        first, *others = run(curve, arguments[1], num_workers=int(arguments[0]))
        assert not any(others)
        print(json.dumps(first))
    else:
        print(json.dumps({"lost": lost, "faults": faults}[what](*arguments)))


if __name__ == "__main__":
    main()
