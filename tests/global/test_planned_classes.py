"""Plans by classes of equal blocks: costs and choices are those of the whole graph."""

from __future__ import annotations

import random
from typing import Any

import oneflow as torch
import oneflow.nn as nn
import pytest
from numpy.testing import assert_allclose
from oneflow.auto_parallel import Cluster, Link, plan
from oneflow.auto_parallel import _search as searching
from oneflow.auto_parallel._problem import Problem, Way, blocks_of
from oneflow.auto_parallel._search import search
from oneflow.testing import run_ranks

WIDTH, ROWS = 16, 64


def cluster(n: int = 4, bandwidth: float = 1e9, memory: float = 1e9) -> Cluster:
    return Cluster("test", 1, n, 1e11, 1e11, memory, Link(1e-6, bandwidth), Link(1e-5, bandwidth / 10))


class Block(nn.Module):
    def __init__(self, hidden: int = 4 * WIDTH) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, hidden), nn.Linear(hidden, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, hidden: list[int]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList([Block(h) for h in hidden])
        self.last = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


class Step(nn.Graph):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.add_optimizer(torch.optim.AdamW(model.parameters(), lr=1e-2))

    def build(self, x: torch.Tensor) -> torch.Tensor:
        loss = self.model(x).square().mean()
        loss.backward()
        return loss


MODELS = {
    **{f"{n} layers": [64] * n for n in (2, 3, 4, 5, 6, 12)},
    "by turns": [64, 32] * 4,
    "two kinds": [64] * 4 + [32] * 4,
}


def problem_of(hidden: list[int], micro_batches: int = 1, again: bool = False) -> Problem:
    step = Step(Model(hidden))
    with Way(blocks_of(step) if again else [], micro_batches).set(step):
        return Problem(step, (torch.ones(ROWS, WIDTH),), {}, None, micro_batches)


def seconds(cost: dict[str, Any]) -> float:
    return cost["compute_seconds"] + cost["move_seconds"]


@pytest.mark.parametrize("mesh", [(4,), (2, 2)], ids=str)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("again", [False, True])
def test_one_block_costs_what_all_cost(name: str, mesh: tuple[int, ...], again: bool) -> None:
    problem, draw = problem_of(MODELS[name], 4, again), random.Random(1)
    whole = problem.whole()
    # Where the blocks are equal inside, no more than the first one, the last one and one of each kind are left.
    assert (problem.n_nodes < whole.n_nodes) == (len(MODELS[name]) > 3), (problem.n_nodes, whole.n_nodes)
    options = [problem.options(g, mesh) for g in range(len(problem.members))]
    for zero in (0, 1, 2, 3):
        for _ in range(4):
            state = [draw.choice(o) for o in options]
            one, all_of_them = (p.estimate(mesh, cluster(), state, {}, zero) for p in (problem, whole))
            for key in ("compute_seconds", "move_seconds", "fixed", "gradients", "bytes"):
                assert one[key] == pytest.approx(all_of_them[key], rel=1e-9), (key, state)
            assert one["peak"] == pytest.approx(all_of_them["peak"], rel=0.02)
            for n_stages in (2, 3):
                cuts = [p.stages(n_stages, mesh, cluster(), 1e9, state, {}, zero) for p in (problem, whole)]
                assert (cuts[0] is None) == (cuts[1] is None)
                assert cuts[0]["total"] == pytest.approx(cuts[1]["total"], rel=1e-9)
                # Blocks that meet others change other layouts than those between equal ones.
                same = whole.stages(n_stages, mesh, cluster(), 1e9, state, {}, zero, cuts[0]["starts"])
                assert_allclose(cuts[0]["halves"], same["halves"], rtol=1e-9)
                assert cuts[0]["peaks"] == pytest.approx(same["peaks"], rel=0.02)


@pytest.mark.parametrize("bandwidth", [1e7, 1e9, 1e11])
@pytest.mark.parametrize("name", MODELS)
def test_planned_by_classes_as_planned_whole(name: str, bandwidth: float) -> None:
    mesh, where = (4,), cluster(bandwidth=bandwidth)
    problem = problem_of(MODELS[name])
    whole = problem.whole()
    found = []
    for p in (problem, whole):
        rule, (_, by_rule) = search(p, mesh, where, 1e9)
        state, calls, _ = p.solve(mesh, where, rule)
        pinned, stands = p.unfolded(mesh, where, state, calls)
        assert set(stands.values()) >= set(calls)
        found.append(seconds(whole.estimate(mesh, where, state, pinned)))
        assert found[-1] <= by_rule * (1 + 1e-9)
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def test_plans_of_large_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many changes to try, the starts go to `solve`: as good here, and it runs as one rank does."""
    make = lambda: Step(Model([64] * 8).double())  # noqa: E731
    x = torch.randn(ROWS, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    options = {"cluster": cluster(), "micro_batches": [4]}
    slow = plan(make(), x, **options)
    monkeypatch.setattr(searching, "_MOST_VISITS", 0.0)
    quick = plan(make(), x, **options)
    assert quick.seconds <= 1.05 * slow.seconds
    staged = plan(make(), x, stages=[2], meshes=[(2,)], **options)

    def run(found: Any) -> list[float]:
        step = make()
        found.apply(step)
        losses = [step(found.place(x)).mean() for _ in range(3)]
        here = torch.distributed.get_rank() in losses[0].placement.ranks.flatten().tolist()
        return [loss.item() for loss in losses] if here else []

    alone = make()
    reference = [alone(x).item() for _ in range(3)]
    for found in (quick, staged):
        for losses in run_ranks(4, lambda found=found: run(found)):
            assert not losses or losses == pytest.approx(reference, rel=1e-9)
