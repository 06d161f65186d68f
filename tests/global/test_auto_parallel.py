"""Layouts chosen by cost: against brute force, against layouts made by hand, and against what a run sends."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import oneflow as torch
import oneflow.nn as nn
import pytest
from oneflow.auto_parallel import Cluster, Link, Plan, plan
from oneflow.auto_parallel._search import Problem
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
        _, (over, found) = problem.search(mesh, where, 1e9)
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
        _, (_, best) = problem.search((4,), cluster(bandwidth=bandwidth), 1e9)
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
    meshes = [mesh for mesh, _, _ in found.others]
    assert sorted(meshes) == [[2, 4], [4, 2], [8]]
    assert found.seconds == pytest.approx(min(s for _, s, _ in found.others))


def test_a_memory_limit_splits_parameters() -> None:
    step, x = Step(Mlp([512, 512, 512]), torch.optim.AdamW), torch.ones(2048, 512)
    free = plan(step, x, cluster=cluster(), meshes=[(4,)])
    tight = plan(step, x, cluster=cluster(), meshes=[(4,)], memory=0.6 * free.peak)
    assert tight.peak <= 0.6 * free.peak and tight.seconds > free.seconds
    assert free.layouts["model.layers.0.weight"] == ("B",) != tight.layouts["model.layers.0.weight"]
    # The search finds the smallest peak, and the fastest that fits.
    problem = Problem(step, (x,), {})
    options = [problem.options(g, (4,)) for g in range(len(problem.members))]
    every = [problem.estimate((4,), cluster(), list(state)) for state in itertools.product(*options)]
    assert tight.seconds == pytest.approx(min(seconds(cost) for cost in every if cost["peak"] <= tight.memory))
    _, (over, _) = problem.search((4,), cluster(), 1e5)
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
    plans = [problem.plan(mesh, [draw.choice(o) for o in options], cluster(), 1e9, []) for _ in range(6)]

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
    assert page.count("<table>") == 3 and "model.layers.0.weight" in page and "<script" not in page


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
