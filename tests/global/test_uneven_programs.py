"""Graphs on ranks whose parts have different sizes: all ranks make the same collectives, in one order.

Whether a view of a part is contiguous depends on its sizes: of one row the transpose is, of two it is not, and it is
copied. What is fused, moved or left out must not depend on that.
"""

from __future__ import annotations

import random
from typing import Any

import oneflow as torch
import pytest
from oneflow import nn
from oneflow.testing import run_ranks

B = torch.sbp.broadcast
SIZES = (1, 2, 3, 5)


def viewed(draw: random.Random, t: Any) -> Any:
    """A view or a layout of a matrix, of any kind, as a matrix."""
    kind = draw.choice(["same", "t", "t", "column", "row", "middle", "flat", "contiguous", "twice"])
    if kind == "t":
        return t.t()
    if kind == "column":
        return t[:, : (t.shape[1] + 1) // 2]
    if kind == "row":
        return t[: (t.shape[0] + 1) // 2]
    if kind == "middle":
        return t.unsqueeze(1).transpose(0, 2).squeeze(1)
    if kind == "flat":
        return t.reshape(-1).unsqueeze(0)
    if kind == "contiguous":
        return t.contiguous()
    return t * 2 if kind == "twice" else t


def program(seed: int, tensors: list[Any], whole: Any) -> list[Any]:
    """Results of views of the tensors, brought together; ``whole`` gathers what ranks have parts of."""
    draw = random.Random(seed)
    gathered, results = [], []
    for _ in range(8):
        t = draw.choice(tensors)
        for _ in range(draw.randrange(4)):
            t = viewed(draw, t)
        gathered.append(whole(t))
        if draw.random() < 0.4:
            results.append(draw.choice(gathered).square().sum())
    results += [g.sin().sum() for g in gathered]
    return [sum(results), *gathered]


def run(seed: int, n: int) -> None:
    draw = random.Random(seed)
    values = []
    for k in range(4):
        size = draw.choice(SIZES), draw.choice(SIZES)
        values.append(torch.arange(size[0] * size[1], dtype=torch.float64).reshape(size) * 0.1 + k)
    splits = [draw.randrange(2) for _ in values]

    leaves = [v.clone().requires_grad_() for v in values[:2]]
    expected = program(seed, [*leaves, *values[2:]], lambda t: t)
    gradients = torch.autograd.grad(expected[0], leaves, allow_unused=True)

    class Program(nn.Graph):
        def __init__(self, parameters: list[nn.Parameter]) -> None:
            super().__init__()
            self.held = nn.ParameterList(parameters)

        def build(self, *inputs: Any) -> Any:
            held = list(self.held)
            results = program(seed, [*held, *inputs], lambda t: t.to_global(sbp=B))
            found = torch.autograd.grad(results[0], held, allow_unused=True)
            return (*results, *[g.to_global(sbp=B) for g in found if g is not None])

    place = torch.placement("cpu", list(range(n)))
    parts = [
        v.to_global(place, B).to_global(sbp=torch.sbp.split(k)).detach() for v, k in zip(values, splits, strict=True)
    ]
    graph = Program([nn.Parameter(t) for t in parts[:2]])
    wanted = [*expected, *[g for g in gradients if g is not None]]
    for _ in range(2):
        found = graph(*parts[2:])
        for ours, theirs in zip(found, wanted, strict=True):
            assert torch.allclose(ours.to_local(), theirs.detach(), rtol=1e-12, atol=1e-12), seed


@pytest.mark.parametrize("n", [2, 3])
def test_ranks_with_parts_of_other_sizes_make_the_same_collectives(n: int) -> None:
    for seed in range(60):
        run_ranks(n, run, seed, n)


@pytest.mark.parametrize("n", [2, 3])
def test_systems_of_equations_whose_rows_are_split(n: int) -> None:
    # The gradient solves the transposed system, whose part is contiguous on the rank that has one row.
    def rank() -> None:
        place, split = torch.placement("cpu", list(range(n))), torch.sbp.split(0)
        a = torch.eye(2 * n - 1, dtype=torch.float64) * 3 + 0.5
        b = torch.arange(5.0 * (2 * n - 1), dtype=torch.float64).reshape(-1, 5)

        def solved(a: Any, b: Any) -> Any:
            a, b = (t.detach().requires_grad_() for t in (a, b))
            x = torch.linalg.solve(a, b)
            return (x, *torch.autograd.grad(x.square().sum(), [a, b]))

        class Program(nn.Graph):
            def build(self, *given: Any) -> Any:
                return solved(*given)

        found = Program()(*[t.to_global(place, B).to_global(sbp=split) for t in (a, b)])
        for ours, theirs in zip(found, solved(a, b), strict=True):
            assert torch.allclose(ours.to_global(sbp=B).to_local(), theirs.detach(), rtol=1e-12, atol=1e-12)

    run_ranks(n, rank)
