#!/usr/bin/env python3
"""Train a small one of any model of the library, in a minute or two on two cores.

    python examples/models/train.py gpt2               eagerly
    python examples/models/train.py gpt2 --graph       forward, backward and update as one compiled program
    python examples/models/train.py swin --bf16        under autocast
    python examples/models/train.py all --steps 20     every model, briefly
    python -m oneflow.distributed.launch --nproc-per-node 4 examples/models/train.py llama --graph --dp 2 --tp 2
                                                       over four processes: two copies, each over two ranks

Prints the score on held-out data beside that of a method without a network; the exit code is 1 where the model is not
better.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "gpt"))

import oneflow as torch
from oneflow import Tensor, nn, sbp
from oneflow.models import ParallelLayout
from progress import Progress
from tasks import TASKS, Task

MAX_NORM = 1.0
N_HELD_OUT_BATCHES = 12


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=[*TASKS, "all"])
    parser.add_argument("--graph", action="store_true", help="compile the step with nn.Graph")
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--steps", type=int, help="each model has its own default")
    parser.add_argument("--batch-size", type=int, help="each model has its own default")
    parser.add_argument("--lr", type=float, help="highest learning rate; each model has its own default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="threads of the CPU kernels; all cores by default")
    parser.add_argument("--dp", type=int, default=1, help="copies of the model, which share the batch")
    parser.add_argument("--tp", type=int, default=1, help="ranks that share a copy")
    parser.add_argument("--zero", type=int, choices=[1, 2, 3], help="with --graph: the copies keep slices, by stage")
    parser.add_argument("--recompute", action="store_true", help="keep only the inputs of blocks for the backward")
    parser.add_argument("--save", type=Path, help="folder for the trained weights")
    args = parser.parse_args()
    if args.zero and not args.graph:
        parser.error("--zero needs --graph; eagerly, oneflow.distributed.fsdp.fully_shard does the same")
    return args


class Loss(nn.Module):
    """The loss of a batch, under autocast where asked."""

    def __init__(self, task: Task, model: nn.Module, bf16: bool) -> None:
        super().__init__()
        self.model = model
        self.of, self.bf16 = task.loss, bf16

    def forward(self, *batch: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            return self.of(self.model, *batch)


class Program(nn.Graph):
    """A whole training step, compiled."""

    def __init__(
        self,
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LRScheduler,
        zero: int | None = None,
    ) -> None:
        super().__init__()
        self.loss = loss
        self.add_optimizer(optimizer, lr_sch=schedule)
        if zero:
            self.config.enable_zero(stage=zero)

    def build(self, *batch: Tensor) -> Tensor:
        loss = self.loss(*batch)
        loss.backward()
        nn.utils.clip_grad_norm_(self.loss.parameters(), MAX_NORM)
        return loss


@torch.no_grad()
def held_out_score(task: Task, model: nn.Module, layout: ParallelLayout | None) -> float:
    """The mean score over batches that are the same in every run."""
    model.eval()
    draw = random.Random(0)
    score = task.score or task.loss
    batches = [task.batch(draw, True, 64) for _ in range(N_HELD_OUT_BATCHES)]
    scores = [float(score(model, *(layout.batch(*batch) if layout else batch))) for batch in batches]
    model.train()
    return sum(scores) / len(scores)


def whole(task: Task, model: nn.Module) -> nn.Module:
    """The trained model on one rank: the parts of all ranks together. All ranks call it."""
    local = task.model()
    state = model.state_dict()
    everywhere = {name: x.to_global(sbp=[sbp.broadcast] * len(x.sbp)).to_local() for name, x in state.items()}
    local.load_state_dict(everywhere)
    return local


def train(name: str, args: argparse.Namespace) -> bool:
    """Train one model; return whether it is better than the method without a network."""
    task = TASKS[name]
    n_steps, batch_size = args.steps or task.steps, args.batch_size or task.batch_size
    lr = args.lr or task.lr
    torch.manual_seed(args.seed)
    model = task.model()
    is_alone = args.dp * args.tp == 1 and not args.recompute
    layout = None if is_alone else ParallelLayout(args.dp, args.tp, args.recompute)
    if layout is not None:
        layout.place(model)
    loss_of = Loss(task, model, args.bf16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=task.weight_decay, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=n_steps + 1, pct_start=0.1)
    program = Program(loss_of, optimizer, schedule, args.zero) if args.graph else None

    def update(*batch: Tensor) -> Tensor:
        if program is not None:
            return program(*batch)
        optimizer.zero_grad()
        loss = loss_of(*batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        schedule.step()
        return loss

    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{name}: {n_parameters:,} parameters, {n_steps} steps of {batch_size}, {'graph' if program else 'eager'}")
    draw = random.Random(args.seed + 1)
    bar = Progress(n_steps, unit=task.counts)
    for _ in range(n_steps):
        batch = task.batch(draw, False, batch_size)
        loss = update(*(layout.batch(*batch) if layout else batch))
        bar.advance(batch_size, f"loss {loss.item():.3f}")
    seconds = bar.close()
    score = held_out_score(task, model, layout)
    if layout is not None:
        model = whole(task, model)
    method, reached = task.baseline()
    print(f"{name}: held-out {task.unit} {score:.3f} after {seconds:.0f} s; {method}: {reached:.3f}")
    if task.finish is not None:
        print(task.finish(model.eval()))
    if args.save:
        model.save_pretrained(args.save / name if args.model == "all" else args.save)
    return score > reached if task.higher else score < reached


def main() -> int:
    args = options()
    if torch.env.get_rank() > 0:
        # One voice for the job.
        sys.stdout = open(os.devnull, "w")
    if args.threads:
        torch.set_num_threads(args.threads)
    names = list(TASKS) if args.model == "all" else [args.model]
    better = [train(name, args) for name in names]
    return 0 if all(better) else 1


if __name__ == "__main__":
    sys.exit(main())
