"""Train a convolutional network on handwritten digits, in about a minute on two cores.

    python examples/digits/train.py             # eager
    python examples/digits/train.py --graph     # forward, backward and update as one compiled program

Prints the accuracy on the 360 images it has not seen; the exit code is 1 where it is below ``--target``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "gpt"))

import oneflow as torch
from data import splits
from model import Net
from oneflow import Tensor, nn
from oneflow.utils.data import DataLoader
from progress import Progress


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--workers", type=int, default=0, help="processes that load batches")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--graph", action="store_true", help="compile the step with nn.Graph")
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--target", type=float, default=0.98, help="accuracy that counts as success")
    return parser.parse_args()


class Step(nn.Module):
    """The loss of a batch, under autocast where asked."""

    def __init__(self, net: Net, bf16: bool) -> None:
        super().__init__()
        self.net, self.bf16 = net, bf16

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast(images.device.type, torch.bfloat16, enabled=self.bf16):
            return nn.functional.cross_entropy(self.net(images), labels, label_smoothing=0.05)


class Program(nn.Graph):
    """A whole training step, compiled."""

    def __init__(self, step: Step, optimizer: torch.optim.Optimizer, schedule: torch.optim.lr_scheduler.LRScheduler):
        super().__init__()
        self.step = step
        self.add_optimizer(optimizer, lr_sch=schedule)

    def build(self, images: Tensor, labels: Tensor) -> Tensor:
        loss = self.step(images, labels)
        loss.backward()
        return loss


@torch.no_grad()
def accuracy(net: Net, loader: DataLoader, device: str) -> float:
    net.eval()
    right = total = 0
    for images, labels in loader:
        guesses = net(images.to(device)).argmax(1).cpu()
        right += int((guesses == labels).sum())
        total += len(labels)
    net.train()
    return right / total


def main() -> int:
    args = options()
    torch.manual_seed(args.seed)
    train, test = splits(n_test=360, seed=1)
    # Whole batches only: a compiled program is made for one shape.
    loader = DataLoader(
        train,
        args.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=args.workers,
        persistent_workers=args.workers > 0,
    )
    unseen = DataLoader(test, 360)
    net = Net().to(args.device)
    step = Step(net, args.bf16)
    optimizer = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=0.05)
    n_steps = args.epochs * len(loader)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=n_steps + 1)
    program = Program(step, optimizer, schedule) if args.graph else None

    def update(images: Tensor, labels: Tensor) -> Tensor:
        if program is not None:
            return program(images, labels)
        optimizer.zero_grad()
        loss = step(images, labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss

    bar = Progress(n_steps, unit="images")
    for epoch in range(args.epochs):
        for images, labels in loader:
            loss = update(images.to(args.device), labels.to(args.device))
            bar.advance(len(labels), f"epoch {epoch + 1} loss {loss.item():.3f}")
    seconds = bar.close()
    reached = accuracy(net, unseen, args.device)
    print(f"test accuracy {100 * reached:.2f} % after {args.epochs} epochs in {seconds:.1f} s")
    return 0 if reached >= args.target else 1


if __name__ == "__main__":
    sys.exit(main())
