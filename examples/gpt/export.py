"""Write a trained model as a program that runs without Python.

python examples/gpt/export.py runs/gpt/checkpoint.pt runs/gpt/program
cargo run --release -p oneflow-rust-service -- runs/gpt/program
"""

from __future__ import annotations

import argparse
from pathlib import Path

import oneflow as torch
from model import GPT, GPTConfig
from oneflow import nn


class NextByte(nn.Graph):
    """Logits of the byte that follows each row: tokens (batch, time) and the place of the last one (batch) in."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model = model

    def build(self, tokens: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        logits = self.model(tokens)
        places = last.view(-1, 1, 1).expand(-1, 1, logits.shape[2])
        return logits.gather(1, places).squeeze(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--batch-size", type=int, default=8, help="texts that are written at the same time")
    args = parser.parse_args()
    state = torch.load(args.checkpoint)
    model = GPT(GPTConfig(**state["config"]))
    model.load_state_dict(state["model"])
    model.eval()
    graph = NextByte(model)
    with torch.no_grad():
        size = (args.batch_size, model.config.block_size)
        graph.trace(torch.zeros(size, dtype=torch.int64), torch.zeros(args.batch_size, dtype=torch.int64))
    torch.save(graph, args.directory)
    print(f"wrote {args.directory}: {args.batch_size} texts of {model.config.block_size} bytes at a time")


if __name__ == "__main__":
    main()
