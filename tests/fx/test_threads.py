"""A module is traced while other threads trace and run theirs."""

from __future__ import annotations

import threading

import oneflow as torch
import oneflow.nn as nn
from oneflow import fx


def test_a_trace_leaves_other_threads_alone() -> None:
    inside, go_on = threading.Event(), threading.Event()

    class Slow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inside.set()
            assert go_on.wait(60)
            return self.linear(x)

    found: list[list[str]] = []

    def names(module: nn.Module) -> list[str]:
        return [str(node.target) for node in fx.symbolic_trace(module).graph.nodes]

    slow = threading.Thread(target=lambda: found.append(names(Slow())))
    slow.start()
    assert inside.wait(60)
    # Here modules run as they are, and another trace waits for its turn.
    other = nn.Linear(2, 2)
    assert other(torch.ones(1, 2)).shape == (1, 2) and isinstance(other.weight, nn.Parameter)
    second = threading.Thread(target=lambda: found.append(names(nn.Sequential(nn.ReLU()))))
    second.start()
    go_on.set()
    slow.join(60)
    second.join(60)
    assert sorted(len(targets) for targets in found) == [3, 3]
    assert sorted(targets[1] for targets in found) == ["0", "linear"]
