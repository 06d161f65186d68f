#!/usr/bin/env python3
"""Train a small GPT on the text of Python's own standard library, then print a sample.

    python examples/gpt/train.py               eagerly
    python examples/gpt/train.py --graph       the same module and optimizer as one compiled program
    python examples/gpt/train.py --resume      go on from the last checkpoint
    python -m oneflow.distributed.launch --nproc-per-node 2 examples/gpt/train.py --layout tensor
                                               split over two processes; see layout.py

The run ends with the loss on held-out files, in nats per byte, beside that of two counting models, and writes
``checkpoint.pt`` and ``loss.png`` to the output directory.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import oneflow as torch
import oneflow.nn as nn
from corpus import batch_at, counting_baseline, read_corpus
from layout import LAYOUTS, Layout
from model import GPT, GPTConfig
from plot import save_curves
from progress import Progress

MAX_NORM = 1.0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graph", action="store_true", help="compile the training step as an nn.Graph")
    parser.add_argument("--layout", choices=LAYOUTS, default="single", help="how the job's ranks share the work")
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint in the output directory")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="threads of the CPU kernels; all cores by default")
    parser.add_argument("--checkpoint-every", type=int, default=200, metavar="STEPS")
    parser.add_argument("--out", type=Path, default=Path("target/gpt"), help="output directory")
    parser.add_argument("--sample-bytes", type=int, default=600)
    parser.add_argument("--held-out-bytes", type=int, help="evaluate on about this many at the end; all by default")
    return parser.parse_args()


def learning_rate_factor(step: int, n_steps: int) -> float:
    """Linear warm-up over a twentieth of the run, then half a cosine down to a twentieth."""
    warmup = max(n_steps // 20, 1)
    if step < warmup:
        return (step + 1) / warmup
    share = (step - warmup) / max(n_steps - warmup, 1)
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))


def make_optimizer(model: nn.Module, lr: float) -> torch.optim.Optimizer:
    """AdamW that decays matrices only: norms and biases stay free."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))


def eager_step(model: GPT, optimizer: Any, schedule: Any) -> Any:
    """Return a function (tokens, targets) -> loss that trains the model by one step."""

    def step(tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss = model(tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        schedule.step()
        return loss

    return step


def graph_step(model: GPT, optimizer: Any, schedule: Any) -> Any:
    """The same step, traced once and compiled."""

    class TrainingStep(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.add_optimizer(optimizer, lr_sch=schedule)

        def build(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            loss = self.model(tokens, targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
            return loss

    return TrainingStep()


@torch.no_grad()
def evaluate(model: GPT, layout: Layout, text: bytes, max_bytes: int | None = None) -> float:
    """Mean nats per byte over consecutive windows of ``text``, or over an even choice of about ``max_bytes`` bytes."""
    size = model.config.block_size
    starts = list(range(0, len(text) - size - 1, size))
    if max_bytes is not None:
        starts = starts[:: max(len(starts) * size // max_bytes, 1)]
    model.eval()
    total = 0.0
    for i in range(0, len(starts), 32):
        windows = torch.tensor([list(text[s : s + size + 1]) for s in starts[i : i + 32]])
        loss = model(layout.batch(windows[:, :-1]), layout.batch(windows[:, 1:]))
        total += loss.item() * windows.shape[0]
    model.train()
    return total / len(starts)


def save_checkpoint(path: Path, **state: Any) -> None:
    """Write beside the old checkpoint and replace it, so that an interrupted write loses nothing."""
    scratch = path.with_suffix(".tmp")
    torch.save(state, scratch)
    os.replace(scratch, path)


def main() -> None:
    args = parse_arguments()
    layout = Layout(args.layout)
    if layout.rank > 0:
        # One voice for the job, until it ends.
        sys.stdout = open(os.devnull, "w")
    torch.manual_seed(args.seed)
    if args.threads:
        torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    checkpoint = args.out / "checkpoint.pt"

    train_text, held_out_text, held_out_files = read_corpus()
    config = GPTConfig()
    model = GPT(config)
    state = torch.load(checkpoint) if args.resume else None
    if state is not None:
        if state["config"] != asdict(config):
            raise SystemExit(f"{checkpoint} holds a model of other sizes: {state['config']}")
        model.load_state_dict(state["model"])
    layout.spread(model)
    optimizer = make_optimizer(model, args.lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate_factor(step, args.steps))
    first_step, losses, held_out_losses = 0, [], []
    if state is not None:
        optimizer.load_state_dict(state["optimizer"])
        layout.spread_state(optimizer)
        schedule.load_state_dict(state["schedule"])
        first_step, losses, held_out_losses = state["step"], state["losses"], state["held_out_losses"]

    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    print(
        f"{n_parameters:,} parameters, {len(train_text):,} bytes to train on, {len(held_out_text):,} held out "
        f"({len(held_out_files)} files), {'graph' if args.graph else 'eager'}"
    )
    step_fn = (graph_step if args.graph else eager_step)(model, optimizer, schedule)

    def save(step: int) -> None:
        # Whole tensors: a checkpoint of one layout goes on in any other.
        whole = {"model": layout.whole(model.state_dict()), "optimizer": layout.whole(optimizer.state_dict())}
        if layout.rank == 0:
            save_checkpoint(
                checkpoint,
                config=asdict(config),
                **whole,
                schedule=schedule.state_dict(),
                step=step,
                losses=losses,
                held_out_losses=held_out_losses,
            )

    bar = Progress(args.steps, first_step)
    for step in range(first_step, args.steps):
        windows = torch.tensor(batch_at(train_text, step, args.seed, args.batch_size, config.block_size))
        loss = step_fn(layout.batch(windows[:, :-1]), layout.batch(windows[:, 1:])).item()
        losses.append((step, loss))
        bar.advance(args.batch_size * config.block_size, f"loss {loss:.3f}")
        if (step + 1) % args.checkpoint_every == 0 or step + 1 == args.steps:
            held_out_losses.append((step, evaluate(model, layout, held_out_text, max_bytes=20_000)))
            bar.note(f"step {step + 1}: loss {loss:.3f}, held out about {held_out_losses[-1][1]:.3f} nats per byte")
            save(step + 1)
    seconds = bar.close()
    print(f"trained {args.steps - first_step} steps in {seconds:.0f} s")

    final = evaluate(model, layout, held_out_text, args.held_out_bytes)
    weights = layout.whole(model.state_dict())
    if layout.rank > 0:
        return
    bigram, trigram = (counting_baseline(train_text, held_out_text, order) for order in (2, 3))
    save_curves(args.out / "loss.png", {"training": losses, "held out": held_out_losses}, "GPT on Python's library")
    print(
        f"\nheld-out files, nats per byte:  GPT {final:.3f}   trigram counts {trigram:.3f}   bigram counts {bigram:.3f}"
    )
    print(f"checkpoint and loss curve: {checkpoint}, {args.out / 'loss.png'}\n")
    writer = GPT(config)
    writer.load_state_dict(weights)
    print(writer.generate(b"def ", args.sample_bytes, seed=args.seed).decode("utf-8", "replace"))


if __name__ == "__main__":
    main()
