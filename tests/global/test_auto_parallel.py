"""Layouts chosen by cost: against brute force, against layouts made by hand, and against what a run sends."""

from __future__ import annotations

import itertools
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import oneflow as torch
import oneflow.nn as nn
import pytest
from oneflow.auto_parallel import Cluster, Link, Plan, plan
from oneflow.auto_parallel._problem import Problem
from oneflow.auto_parallel._reach import reaches_of
from oneflow.auto_parallel._search import search
from oneflow.dryrun import dry_run
from oneflow.testing import run_ranks


def cluster(n: int = 4, hosts: int = 1, bandwidth: float = 1e9, memory: float = 1e9) -> Cluster:
    return Cluster("test", hosts, n // hosts, 1e11, 1e11, memory, Link(1e-6, bandwidth), Link(1e-5, bandwidth / 10))


class Mlp(nn.Module):
    def __init__(self, widths: list[int], norm: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([nn.Linear(i, o) for i, o in itertools.pairwise(widths)])
        self.norms = nn.ModuleList([nn.LayerNorm(o) for o in widths[1:]] if norm else [])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for k, layer in enumerate(self.layers):
            x = layer(x) if k == 0 else layer(nn.functional.relu(x))
            x = self.norms[k](x) if len(self.norms) else x
        return x


class Step(nn.Graph):
    def __init__(self, model: nn.Module, optimizer: type = torch.optim.SGD) -> None:
        super().__init__()
        self.model = model
        self.add_optimizer(optimizer(model.parameters(), lr=0.1))

    def build(self, x: torch.Tensor) -> torch.Tensor:
        loss = self.model(x).square().mean()
        loss.backward()
        return loss


# Small graphs: widths, batch, bandwidth, norms.
SMALL = [
    (widths, batch, bandwidth, norm)
    for widths in ([8, 8], [16, 64], [64, 16], [8, 32, 8], [64, 8, 64])
    for batch in (4, 64, 1024)
    for bandwidth in (1e7, 1e9, 1e11)
    for norm in (False, True)
    if not (norm and len(widths) > 2)
]


def seconds(cost: dict[str, Any]) -> float:
    return cost["compute_seconds"] + cost["move_seconds"]


@pytest.mark.parametrize("mesh", [(2,), (2, 2)], ids=str)
def test_as_good_as_brute_force(mesh: tuple[int, ...]) -> None:
    n = 2 ** len(mesh)
    worst, checked = 1.0, 0
    for widths, batch, bandwidth, norm in SMALL:
        if len(mesh) > 1 and (len(widths) > 2 or norm):
            continue
        where = cluster(n, bandwidth=bandwidth)
        problem = Problem(Step(Mlp(widths, norm)), (torch.ones(batch, widths[0]),), {})
        _, (over, found) = search(problem, mesh, where, 1e9)
        every = itertools.product(*[problem.options(g, mesh) for g in range(len(problem.members))])
        best = min(seconds(problem.estimate(mesh, where, list(state))) for state in every)
        assert over == 0 and found <= 1.05 * best, (widths, batch, bandwidth, norm)
        worst, checked = max(worst, found / best), checked + 1
    assert checked >= (18 if len(mesh) > 1 else 50) - 5, checked


def test_choices_follow_the_sizes() -> None:
    wide = Step(Mlp([256, 4096, 256]))
    # A large batch and small weights: the batch is split, weights are replicated.
    found = plan(Step(Mlp([64, 64, 64, 64])), torch.ones(2048, 64), cluster=cluster(), meshes=[(4,)])
    assert found.inputs == [("S(0)",)]
    assert {found.layouts[f"model.layers.{k}.weight"] for k in range(3)} == {("B",)}
    # One layer whose input needs no gradient: columns leave nothing to add up, whatever the batch.
    found = plan(Step(Mlp([64, 64])), torch.ones(8192, 64), cluster=cluster(), meshes=[(4,)])
    assert found.inputs == [("B",)] and found.layouts["model.layers.0.weight"] == ("S(0)",)
    assert sum(found.bytes) == 0
    # A small batch and large weights: the first weight by columns, the second by rows.
    found = plan(wide, torch.ones(4, 256), cluster=cluster(), meshes=[(4,)])
    assert found.layouts["model.layers.0.weight"] == ("S(0)",)
    assert found.layouts["model.layers.1.weight"] == ("S(1)",)
    # Never worse than data parallel or tensor parallel by hand.
    problem = Problem(Step(Mlp([256, 1024, 256])), (torch.ones(64, 256),), {})
    for bandwidth in (1e8, 1e10):
        _, (_, best) = search(problem, (4,), cluster(bandwidth=bandwidth), 1e9)
        names = [members[0][1] for members in problem.members]
        tensor_parallel = {"model.layers.0.weight": 0, "model.layers.0.bias": 0, "model.layers.1.weight": 1}
        by_hand = [
            [(0 if name == "input 0" else -1,) for name in names],
            [(tensor_parallel.get(name, -1),) for name in names],
        ]
        for state in by_hand:
            assert best <= seconds(problem.estimate((4,), cluster(bandwidth=bandwidth), state)) * (1 + 1e-9)


def test_slow_links_between_hosts_carry_less() -> None:
    found = plan(Step(Mlp([256, 1024, 256])), torch.ones(512, 256), cluster=cluster(8, hosts=2))
    meshes = [mesh for mesh, *_ in found.others]
    assert sorted(meshes) == [[2, 4], [4, 2], [8]]
    assert found.seconds == pytest.approx(min(s for *_, s, _ in found.others))


# Hosts, devices of each, mesh, and which links the devices of a host share.
EQUAL = [(1, 4, (4,)), (2, 4, (8,)), (2, 4, (2, 4)), (2, 4, (4, 2)), (4, 2, (2, 2, 2))]
# Hosts have unequal parts of a line. On shared links, lines that end early leave their share to others.
UNEQUAL = [(2, 4, (6,)), (3, 4, (4, 3))]
REACHES = [(*e, shared) for e in EQUAL for shared in itertools.product([False, True], repeat=2)]
REACHES += [(*e, (False, False)) for e in UNEQUAL]
# Bytes that a rank of `n` sends of a tensor of one byte, and messages that follow one another.
CHANGES: dict[tuple[str, str], Any] = {
    ("P", "B"): lambda n: (2 * (n - 1) / n, 2 * (n - 1)),
    ("P", "S(0)"): lambda n: ((n - 1) / n, n - 1),
    ("S(0)", "B"): lambda n: ((n - 1) / n, n - 1),
    ("S(0)", "S(1)"): lambda n: ((n - 1) / n / n, n - 1),
}
SBP = {"P": torch.sbp.partial_sum, "B": torch.sbp.broadcast, "S(0)": torch.sbp.split(0), "S(1)": torch.sbp.split(1)}


@pytest.mark.parametrize(("hosts", "per_host", "mesh", "shared"), REACHES, ids=str)
def test_a_change_of_layout_costs_what_a_dry_run_takes(
    hosts: int, per_host: int, mesh: tuple[int, ...], shared: tuple[bool, bool]
) -> None:
    links = (Link(2e-5, 8e9, shared[0]), Link(1e-4, 1e9, shared[1]))
    where = Cluster("test", hosts, per_host, 1e30, 1e30, 1e12, *links)
    sizes = (144, 288)

    class Change(nn.Graph):
        def __init__(self, layout: list[Any]) -> None:
            super().__init__()
            self.layout = layout

        def build(self, x: torch.Tensor) -> torch.Tensor:
            return x.to_global(sbp=self.layout)

    def job(axis: int, change: tuple[str, str]) -> tuple[Any, ...]:
        place = torch.placement("cpu", np.arange(math.prod(mesh)).reshape(mesh))
        before, after = ([SBP[s] if k == axis else SBP["B"] for k in range(len(mesh))] for s in change)
        return Change(after), torch.ones(*sizes, placement=place, sbp=before)

    for (axis, reach), change in itertools.product(enumerate(reaches_of(mesh, where)), CHANGES):
        sent, rounds = CHANGES[change](mesh[axis])
        bandwidth = reach.exchange if change == ("S(0)", "S(1)") else reach.ring
        expected = rounds * reach.latency + 4 * math.prod(sizes) * sent / bandwidth
        found = dry_run(job, axis, change, cluster=where)
        assert found.step_seconds == pytest.approx(expected, rel=1e-3), (axis, change)


@pytest.mark.parametrize(("hosts", "per_host"), [(1, 4), (2, 2), (2, 4)])
def test_a_plan_costs_what_its_dry_run_takes(hosts: int, per_host: int) -> None:
    """All collectives of a step, on a cluster whose devices take no time."""
    mesh = (hosts * per_host,)
    where = Cluster("test", hosts, per_host, 1e30, 1e30, 1e12, Link(0.0, 8e9), Link(0.0, 1e9))
    x = torch.ones(1024, 64)
    problem, draw = Problem(Step(Mlp([64, 256, 64])), (x,), {}), random.Random(1)
    options = [problem.options(g, mesh) for g in range(len(problem.members))]
    for _ in range(6):
        state = [draw.choice(o) for o in options]
        found = plan_of(problem, mesh, state, {})

        def job(found: Plan = found) -> tuple[Any, ...]:
            step = Step(Mlp([64, 256, 64]))
            found.apply(step)
            return step, found.place(x)

        expected = problem.estimate(mesh, where, state)["move_seconds"]
        assert dry_run(job, cluster=where).step_seconds == pytest.approx(expected, rel=0.01, abs=1e-9), state


def test_a_memory_limit_splits_parameters() -> None:
    step, x = Step(Mlp([512, 512, 512]), torch.optim.AdamW), torch.ones(2048, 512)
    free = plan(step, x, cluster=cluster(), meshes=[(4,)])
    tight = plan(step, x, cluster=cluster(), meshes=[(4,)], memory=0.6 * free.peak, zero=[0], recompute=[False])
    assert tight.peak <= 0.6 * free.peak and tight.seconds > free.seconds
    assert free.layouts["model.layers.0.weight"] == ("B",) != tight.layouts["model.layers.0.weight"]
    # The search finds the smallest peak, and the fastest that fits.
    problem = Problem(step, (x,), {})
    options = [problem.options(g, (4,)) for g in range(len(problem.members))]
    every = [problem.estimate((4,), cluster(), list(state)) for state in itertools.product(*options)]
    # Layouts of calls may do better than the rule.
    assert tight.seconds <= min(seconds(cost) for cost in every if cost["peak"] <= tight.memory) * (1 + 1e-9)
    # Slices of states may be faster than split weights.
    sliced = plan(step, x, cluster=cluster(), meshes=[(4,)], memory=0.6 * free.peak)
    assert sliced.peak <= 0.6 * free.peak and sliced.seconds <= tight.seconds
    _, (over, _) = search(problem, (4,), cluster(), 1e5)
    assert over + 1e5 == pytest.approx(min(cost["peak"] for cost in every))
    with pytest.raises(ValueError, match=r"no layout over test fits in 0\.1 MB a device; the smallest peak found is "):
        plan(step, x, cluster=cluster(), memory=1e5)
    # Planning leaves no trace in the optimizer.
    assert not step._optimizers[0][0].state


def run_plan(found: Plan, widths: list[int], batch: int, norm: bool = False) -> tuple[list[float], int]:
    """Train under a plan on this rank; return the losses and the bytes that a step sends."""
    step = Step(Mlp(widths, norm))
    found.apply(step)
    torch.manual_seed(1)
    x = found.place(torch.randn(batch, widths[0]))
    losses = []
    for _ in range(3):
        torch.distributed.reset_wire_counters()
        loss = step(x)
        sent = sum(torch.distributed.wire_bytes().values())
        losses.append(loss.to_global(sbp=[torch.sbp.broadcast] * len(found.mesh)).to_local().item())
    return losses, sent


# With norms, which global tensors run as compositions: so must the estimate.
@pytest.mark.parametrize(
    ("widths", "batch", "norm"),
    [
        ([64, 64], 512, False),
        ([64, 64, 64, 64], 2048, True),
        ([32, 256, 32], 8, False),
        ([64, 256, 64], 128, False),
        ([64, 256, 64], 128, True),
    ],
    ids=str,
)
@pytest.mark.parametrize("mesh", [(4,), (2, 2)], ids=str)
def test_a_plan_trains_as_one_rank_and_sends_what_it_says(
    widths: list[int], batch: int, norm: bool, mesh: tuple[int, ...]
) -> None:
    found = plan(Step(Mlp(widths, norm)), torch.ones(batch, widths[0]), cluster=cluster(), meshes=[mesh])
    alone = Step(Mlp(widths, norm))
    torch.manual_seed(1)
    x = torch.randn(batch, widths[0])
    reference = [alone(x).item() for _ in range(3)]
    results = run_ranks(4, lambda: run_plan(found, widths, batch, norm))
    for losses, _ in results:
        assert losses == pytest.approx(reference, rel=1e-5)
    sent = sum(n for _, n in results) / 4
    assert sent == pytest.approx(sum(found.bytes), rel=0.05, abs=256)


def plan_of(problem: Problem, mesh: tuple[int, ...], state: list[Any], calls: dict[int, Any], zero: int = 0) -> Plan:
    """The plan of given layouts, searched or not."""
    cost = problem.estimate(mesh, cluster(), state, calls, zero)
    layouts, inputs = problem.named(state, len(mesh))
    pins = [[*problem.calls[at][:2], *map(list, pin), "", None] for at, pin in calls.items()]
    parts = (cost["compute_seconds"], cost["move_seconds"], cost["peak"], 1e9, cost["bytes"])
    more = {"calls": pins, "zero": zero, "input_sizes": problem.input_sizes}
    return Plan("test", list(mesh), layouts, inputs, sum(parts[:2]), *parts, **more)


class Attention(nn.Module):
    """One block of a language model, whose ops global tensors run in many ways: rows, views and compositions."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.norm = nn.Embedding(64, 32), nn.LayerNorm(32)
        self.qkv, self.out, self.head = nn.Linear(32, 96), nn.Linear(32, 32), nn.Linear(32, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embedding(x)
        q, k, v = self.qkv(self.norm(h)).reshape(*x.shape, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(a.transpose(1, 2).reshape(h.shape))
        return nn.functional.cross_entropy(self.head(h).reshape(-1, 64), x.reshape(-1))


@pytest.mark.parametrize("mesh", [(4,), (2, 2)], ids=str)
def test_any_layouts_send_what_is_estimated(mesh: tuple[int, ...]) -> None:
    class Train(Step):
        def build(self, x: torch.Tensor) -> torch.Tensor:
            loss = self.model(x)
            loss.backward()
            return loss

    x = torch.randint(0, 64, (8, 16))
    problem, draw = Problem(Train(Attention()), (x,), {}), random.Random(0)
    options = [problem.options(g, mesh) for g in range(len(problem.members))]
    plans = [plan_of(problem, mesh, [draw.choice(o) for o in options], {}) for _ in range(6)]

    def sent() -> list[int]:
        counts = []
        for found in plans:
            step = Train(Attention())
            found.apply(step)
            placed = found.place(x)
            torch.distributed.reset_wire_counters()
            step(placed)
            counts.append(sum(torch.distributed.wire_bytes().values()))
        return counts

    for found, *counts in zip(plans, *run_ranks(4, sent), strict=True):
        assert sum(found.bytes) == pytest.approx(sum(counts) / 4, rel=1e-3, abs=16)


@pytest.mark.parametrize("mesh", [(4,), (2, 2)], ids=str)
def test_any_layouts_of_calls_run_and_send_what_is_estimated(mesh: tuple[int, ...]) -> None:
    """Half of all calls has layouts drawn from what ops offer: losses do not change, bytes are as estimated."""

    class Train(Step):
        def build(self, x: torch.Tensor) -> torch.Tensor:
            loss = self.model(x)
            loss.backward()
            return loss

    x = torch.randint(0, 64, (8, 16))
    problem, draw = Problem(Train(Attention().double()), (x,), {}), random.Random(1)
    whole = [problem.options(g, mesh)[0] for g in range(len(problem.members))]
    plans = []
    while len(plans) < 5:
        state = [draw.choice(problem.options(g, mesh)) for g in range(len(whole))]
        calls = {}
        for at in problem.calls:
            offers = [o for o in problem.offers(mesh, cluster(), at) if "P" not in str(o[0])]
            if draw.random() < 0.5 and offers:
                calls[at] = draw.choice(offers)
        plans.append(plan_of(problem, mesh, state, calls))
    alone = Train(Attention().double())
    reference = [alone(x).item() for _ in range(3)]

    def run() -> list[tuple[list[float], int]]:
        found = []
        for each in plans:
            step = Train(Attention().double())
            each.apply(step)
            placed, losses = each.place(x), []
            for _ in range(3):
                torch.distributed.reset_wire_counters()
                loss = step(placed)
                sent = sum(torch.distributed.wire_bytes().values())
                losses.append(loss.to_global(sbp=[torch.sbp.broadcast] * len(mesh)).item())
            found.append((losses, sent))
        return found

    for each, *found in zip(plans, *run_ranks(4, run), strict=True):
        assert len(each.calls) > 5
        for losses, _ in found:
            assert losses == pytest.approx(reference, rel=1e-9)
        assert sum(each.bytes) == pytest.approx(sum(sent for _, sent in found) / 4, rel=1e-3, abs=16)


# Ops of the small graphs below: of a matrix, and of two of one shape.
ONE = {
    "relu": torch.relu,
    "softmax": lambda x: x.softmax(-1),
    "transpose": lambda x: x.t(),
    "gram": lambda x: x @ x.t(),
    "columns": lambda x: x.sum(0, keepdim=True) + x,
    "largest": lambda x: x / x.amax(-1, keepdim=True),
}


class Small(nn.Graph):
    """A few random ops of an input and a weight."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        rows, width, out = (draw.choice([8, 16, 64, 256]) for _ in range(3))
        self.model = nn.Linear(width, out, bias=False)
        self.ops = [draw.choice(list(ONE)) for _ in range(draw.choice([1, 2]))]
        self.first = draw.random() < 0.5
        self.x = (rows, width)

    def build(self, x: torch.Tensor) -> torch.Tensor:
        for name in self.ops if self.first else []:
            x = ONE[name](x)
            if x.shape[-1] != self.model.in_features:
                x = x.t() if x.shape[0] == self.model.in_features else x @ x.new_ones(x.shape[-1], 1) * 1.0
                break
        if x.shape[-1] == self.model.in_features:
            x = self.model(x)
        for name in [] if self.first else self.ops:
            x = ONE[name](x)
        return x.sum()


def test_calls_as_good_as_brute_force_on_fifty_graphs() -> None:
    worst, checked, better, seed = 1.0, 0, 0, 0
    while checked < 50:
        seed += 1
        step = Small(seed)
        problem = Problem(step, (torch.ones(step.x),), {})
        where, mesh = cluster(2, bandwidth=[1e8, 1e9, 1e10][seed % 3]), (2,)
        options = [problem.options(g, mesh) for g in range(len(problem.members))]
        # Sums of other kinds than addition come from no call here.
        offers = [[o for o in problem.offers(mesh, where, at) if "P(" not in str(o)] for at in problem.calls]
        count = 1
        for some in [*options, *offers]:
            count *= len(some)
        if count > 3000:
            continue
        best = float("inf")
        for state in itertools.product(*options):
            for pins in itertools.product(*offers):
                calls = dict(zip(problem.calls, pins, strict=True))
                try:
                    best = min(best, seconds(problem.estimate(mesh, where, list(state), calls)))
                except RuntimeError as error:
                    assert "no way from" in str(error)
        rule, (_, by_rule) = search(problem, mesh, where, 1e9)
        state, calls, optimal = problem.solve(mesh, where, rule)
        found = seconds(problem.estimate(mesh, where, state, calls))
        assert optimal and found <= 1.05 * best + 1e-10, (seed, found, best)
        assert found <= by_rule + 1e-12
        worst, checked, better = max(worst, found / best), checked + 1, better + (found < 0.99 * by_rule)
    assert better > 0, "the rule is as good everywhere: these graphs show nothing"


def run_auto(memory: float | None, given: str, ignore: bool = False) -> tuple[list[float], float, list[Any]]:
    """Train with `enable_auto_parallel` on this rank; return the losses, the bytes of a step and the plan."""
    model, place = Mlp([64, 256, 64], True).double(), torch.placement.all("cpu")
    if given != "local":
        model.to_global(place, torch.sbp.broadcast)
    if given == "S(0)":
        model.to_global(sbp=torch.sbp.split(0))
    step = Step(model, torch.optim.AdamW)
    step.config.enable_auto_parallel(True, cluster=cluster(4), memory=memory)
    step.config.enable_auto_parallel_ignore_user_sbp_config(ignore)
    torch.manual_seed(1)
    x = torch.randn(256, 64, dtype=torch.float64)
    losses, sent = [], 0
    for _ in range(4):
        torch.distributed.reset_wire_counters()
        loss = step(x)
        # The batch comes from rank 0.
        sent = sum(n for kind, n in torch.distributed.wire_bytes().items() if kind != "broadcast")
        losses.append(loss.to_global(sbp=[torch.sbp.broadcast] * len(loss.sbp)).item())
    plan = step.parallel_plan
    held = sum(p.to_local().numel() for p in step.model.parameters())
    return losses, sent, [plan.mesh, plan.layouts, plan.zero, sum(plan.bytes), plan.peak, held, plan.recompute]


def auto_reference() -> list[float]:
    step = Step(Mlp([64, 256, 64], True).double(), torch.optim.AdamW)
    torch.manual_seed(1)
    x = torch.randn(256, 64, dtype=torch.float64)
    return [step(x).item() for _ in range(4)]


@pytest.mark.parametrize("given", ["local", "B", "S(0)"])
@pytest.mark.parametrize("ignore", [False, True])
def test_a_graph_plans_itself(given: str, ignore: bool) -> None:
    found = run_ranks(4, run_auto, None, given, ignore)
    for losses, _, shown in found:
        assert losses == pytest.approx(auto_reference(), rel=1e-9)
        assert shown == [*found[0][2][:5], shown[5], shown[6]]
    sent = sum(n for _, n, _ in found) / 4
    mesh, layouts, zero, expected, *_ = found[0][2]
    assert zero == 0 and sent == pytest.approx(expected, rel=1e-3, abs=1024)
    if given != "local" and not ignore:
        assert mesh == [4] and set(layouts.values()) == {(given,)}


def test_a_memory_limit_brings_slices() -> None:
    peak = run_ranks(4, run_auto, None, "local")[0][2][4]
    found = run_ranks(4, run_auto, 0.75 * peak, "local")
    for losses, _, (_, _, _, _, lean, _, _) in found:
        assert losses == pytest.approx(auto_reference(), rel=1e-9)
        assert lean <= 0.75 * peak
    sent = sum(n for _, n, _ in found) / 4
    assert sent == pytest.approx(found[0][2][3], rel=0.02, abs=256)


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_slices_send_what_is_estimated(zero: int) -> None:
    x = torch.ones(256, 64, dtype=torch.float64)
    make = lambda: Step(Mlp([64, 256, 64]).double(), torch.optim.AdamW)  # noqa: E731
    problem = Problem(make(), (x,), {})
    state = [(0,) if members[0][1].startswith("input") else (-1,) for members in problem.members]
    found = plan_of(problem, (4,), state, {}, zero)

    def run() -> int:
        step = make()
        found.apply(step)
        placed = found.place(x)
        step(placed)
        torch.distributed.reset_wire_counters()
        step(placed)
        return sum(torch.distributed.wire_bytes().values())

    sent = run_ranks(4, run)
    assert sum(found.bytes) == pytest.approx(sum(sent) / 4, rel=0.03, abs=64)


def test_micro_batches_and_blocks_run_again() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.down(nn.functional.gelu(self.up(x)).tanh())

    def make() -> Step:
        torch.manual_seed(0)
        return Step(nn.Sequential(*[Block() for _ in range(4)]).double())

    torch.manual_seed(1)
    x = torch.randn(512, 32, dtype=torch.float64)
    free = plan(make(), x, cluster=cluster(2), meshes=[(2,)], recompute=[False])
    again = plan(make(), x, cluster=cluster(2), meshes=[(2,)], recompute=[True])
    assert again.peak < free.peak and again.seconds > free.seconds and len(again.recompute) == 4
    chosen = plan(make(), x, cluster=cluster(2), meshes=[(2,)], memory=1.05 * again.peak)
    assert chosen.recompute and chosen.peak <= 1.05 * again.peak
    fewer = plan(make(), x, cluster=cluster(2), meshes=[(2,)], micro_batches=[1, 4], memory=0.9 * free.peak, zero=[0])
    for found in (again, chosen, fewer):

        def run(found: Plan = found) -> list[float]:
            step = make()
            found.apply(step)
            placed = found.place(x)
            return [step(placed).mean().item() for _ in range(3)]

        alone = make()
        reference = [alone(x).item() for _ in range(3)]
        for losses in run_ranks(2, run):
            assert losses == pytest.approx(reference, rel=1e-9)


def test_options_of_graphs() -> None:
    config = Step(Mlp([8, 8])).config
    config.set_auto_parallel_computation_cost_ratio(0.05)
    config.set_auto_parallel_wait_time(1.65e4)
    for call in (config.enable_auto_parallel_trunk_algo, config.enable_auto_parallel_mainstem_algo):
        call(False)
        with pytest.raises(NotImplementedError, match="no overlap"):
            call()
    with pytest.raises(NotImplementedError, match="not shared"):
        config.enable_auto_parallel_sbp_collector()
    for bad in (0, -1, float("nan"), "x"):
        with pytest.raises(ValueError, match="cost_ratio"):
            config.set_auto_parallel_computation_cost_ratio(bad)
    with pytest.raises(ValueError, match="wait_time"):
        config.set_auto_parallel_wait_time(-1)
    # Without other ranks there is nothing to lay out.
    step = Step(Mlp([8, 8]))
    step.config.enable_auto_parallel()
    assert step(torch.ones(2, 8)).dim() == 0 and step.parallel_plan is None

    def two() -> None:
        step = Step(Mlp([8, 8]))
        step.config.enable_auto_parallel(cluster="8xh100")
        with pytest.raises(ValueError, match="8xh100 has 8 devices, and the job 2 ranks"):
            step(torch.ones(2, 8))

    run_ranks(2, two)


def test_saved_edited_and_loaded(tmp_path: Path) -> None:
    found = plan(Step(Mlp([16, 64, 16])), torch.ones(4, 16), cluster=cluster(), meshes=[(4,)])
    path = tmp_path / "plan.json"
    found.save(path)
    assert Plan.load(path) == found
    text = json.loads(path.read_text())
    text["layouts"]["model.layers.0.weight"] = ["S(1)"]
    path.write_text(json.dumps(text))
    edited = Plan.load(path)
    assert edited.layouts["model.layers.0.weight"] == ("S(1)",)
    losses = [r[0] for r in run_ranks(4, lambda: run_plan(edited, [16, 64, 16], 4))]
    alone = Step(Mlp([16, 64, 16]))
    torch.manual_seed(1)
    x = torch.randn(4, 16)
    assert losses[0] == pytest.approx([alone(x).item() for _ in range(3)], rel=1e-5)
    for bad in (
        "{}",
        "[",
        '{"version": 7}',
        json.dumps({**text, "mesh": [2, 2]}),
        json.dumps({**text, "inputs": [["Q"]]}),
    ):
        path.write_text(bad)
        with pytest.raises(ValueError, match="is not a plan"):
            Plan.load(path)


def test_reports(tmp_path: Path) -> None:
    found = plan(Step(Mlp([16, 64, 16])), torch.ones(4, 16), cluster=cluster(), meshes=[(4,), (2, 2)])
    table = found.table()
    assert "model.layers.0.weight" in table and "next best" in table and "2 x 2" in table
    found.html(tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text()
    assert page.count("<table>") == 4 and "model.layers.0.weight" in page and "<script" not in page


def test_clusters(tmp_path: Path) -> None:
    sizes = {"8xh100": 8, "128xh100": 128, "1024xh100": 1024, "8xa100": 8, "128xa100": 128, "4xcpu": 4}
    assert {name: Cluster.load(name).n_devices for name in Cluster.names()} == sizes
    path = tmp_path / "own.toml"
    device = "[device]\nflops = 1e12\nmemory_bandwidth = 1e11\nmemory = 1e9\n"
    link = "[inside]\nlatency = 1e-6\nbandwidth = 1e9\n"
    path.write_text("devices_per_host = 2\n" + device + link)
    assert Cluster.load(path) == Cluster("own", 1, 2, 1e12, 1e11, 1e9, Link(1e-6, 1e9), Link(1e-6, 1e9))
    for text, why in (
        ("hosts = 0\n" + device + link, "hosts must be a positive integer, got 0"),
        (device.replace("1e12", "-1.0") + link, "flops must be a positive number, got -1.0"),
        (device.replace("1e12", "nan") + link, "flops must be a positive number, got nan"),
        (device + link.replace("1e-6", "-1e-6"), r"inside\.latency must be seconds"),
        (device + link.replace("1e9", "0"), r"inside\.bandwidth must be a positive number, got 0"),
        (device, r"the table \[inside\] is missing"),
        ("hots = 1\n" + device + link, "unknown entry 'hots'"),
        ("[device]\nflops = 1e12\n" + link, r"\[device\] needs flops, memory_bandwidth, memory, and has flops"),
        ("hosts = ", "own.toml"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=why):
            Cluster.load(path)
    with pytest.raises(FileNotFoundError, match="no cluster and no file '9xh100': known are"):
        Cluster.load("9xh100")


def test_bad_input() -> None:
    step, x = Step(Mlp([8, 8])), torch.ones(4, 8)
    with pytest.raises(ValueError, match=r"mesh \(3,\) has 3 devices, and test has 4"):
        plan(step, x, cluster=cluster(), meshes=[(3,)])
    found = plan(step, x, cluster=cluster(), meshes=[(4,)])
    with pytest.raises(RuntimeError, match="the plan is for 4 ranks, and the job has 1"):
        found.apply(step)
    found.mesh = [1]
    with pytest.raises(ValueError, match="the plan and the graph differ in"):
        found.apply(Step(Mlp([8, 8, 8])))
    with pytest.raises(ValueError, match="the plan is for 1 inputs, got 2"):
        found.place(x, x)
    placed = x.to_global(torch.placement("cpu", [0]), torch.sbp.broadcast)
    with pytest.raises(RuntimeError, match="give inputs of the whole batch as local tensors"):
        plan(step, placed, cluster=cluster())
