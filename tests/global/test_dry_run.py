"""Dry runs against what the same jobs send and hold when they run, and against tables of pipelines."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import oneflow as torch
import pytest
from oneflow import _oneflow, nn
from oneflow.auto_parallel import Cluster, Link, plan
from oneflow.auto_parallel._problem import Problem
from oneflow.distributed.pipelining import PipelineTable, make_table
from oneflow.dryrun import described, dry_run, measure, simulate_schedule, sweep
from oneflow.dryrun._job import Plans
from oneflow.testing import run_ranks

B, S0, S1 = torch.sbp.broadcast, torch.sbp.split(0), torch.sbp.split(1)


def cluster(n: int = 4, hosts: int = 1, memory: float = 1e9, **options: Any) -> Cluster:
    return Cluster("test", hosts, n // hosts, 1e11, 1e11, memory, Link(1e-6, 1e9), Link(1e-5, 1e8), **options)


class Step(nn.Graph):
    def __init__(self, model: nn.Module, zero: int = 0, micro_batches: int = 1, schedule: Any = None) -> None:
        super().__init__()
        self.model = model
        self.add_optimizer(torch.optim.AdamW(model.parameters(), lr=1e-3))
        if zero:
            self.config.enable_zero(stage=zero, shard_min_size=16)
        if micro_batches > 1:
            self.config.set_gradient_accumulation_steps(micro_batches)
        if schedule is not None:
            self.config.set_pipeline_schedule(schedule)

    def build(self, x: torch.Tensor) -> torch.Tensor:
        loss = self.model(x).square().mean()
        loss.backward()
        return loss


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 62))


def data_parallel(zero: int = 0) -> tuple[Any, ...]:
    place = torch.placement.all("cpu")
    x = torch.ones(32, 64).to_global(place, B).to_global(sbp=S0)
    return Step(mlp().to_global(place, B), zero), x


def tensor_parallel(dp: int, tp: int, zero: int = 0) -> tuple[Any, ...]:
    place = torch.placement("cpu", torch.arange(dp * tp).reshape(dp, tp).tolist())
    model = mlp().to_global(place, [B, B])
    model[0].to_global(sbp=[B, S0])
    model[2].weight = nn.Parameter(model[2].weight.detach().to_global(sbp=[B, S1]))
    return Step(model, zero), torch.ones(32, 64).to_global(place, [B, B]).to_global(sbp=[S0, B])


def pipelined(schedule: Any = None, stages: tuple[int, ...] = (0, 1), micro_batches: int = 4) -> tuple[Any, ...]:
    torch.manual_seed(0)
    places = [torch.placement("cpu", [rank]) for rank in stages]
    model = nn.Sequential(*[nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in places])
    for number, (stage, place) in enumerate(zip(model, places, strict=True)):
        stage.to_global(place, B).to(nn.graph.GraphModule).set_stage(number, place)
    return Step(model, 0, micro_batches, schedule), torch.ones(16, 32).to_global(places[0], B)


def data_and_pipeline(schedule: str = "1F1B", rows: tuple[int, ...] = (0, 1), width: int = 32) -> tuple[Any, ...]:
    """Each row of the pipeline is two ranks; a row may have several stages."""
    places = [torch.placement("cpu", [2 * row, 2 * row + 1]) for row in rows]
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in places])
    for number, (stage, place) in enumerate(zip(model, places, strict=True)):
        stage.to_global(place, B).to(nn.graph.GraphModule).set_stage(number, place)
    x = torch.ones(16, width).to_global(places[0], B).to_global(sbp=S0)
    return Step(model, 0, 4, schedule), x


def planned(seed: int, again: bool = False) -> tuple[Any, ...]:
    """A plan of two stages over two ranks each, with layouts drawn for half of the calls that may have one."""
    draw = random.Random(seed)
    torch.manual_seed(0)
    step, x = Step(nn.Sequential(*[nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(4)])), torch.ones(64, 32)
    found = plan(step, x, cluster=cluster(4), micro_batches=[4], stages=[2], meshes=[(2,)], recompute=[again])
    problem = Problem(step, (x,), {}, None, 4).whole()
    found.calls = []
    for at, (key, number, where) in problem.calls.items():
        offers = [o for o in problem.offers((2,), cluster(4), at) if "P" not in str(o[0])]
        if draw.random() < 0.5 and offers:
            found.calls.append([key, number, *map(list, draw.choice(offers)), where, None])
    assert len(found.calls) > 8
    found.apply(step)
    return step, found.place(x)


JOBS = {
    "data": (4, lambda: data_parallel()),
    "zero 1": (4, lambda: data_parallel(1)),
    "zero 2": (4, lambda: data_parallel(2)),
    "zero 3": (4, lambda: data_parallel(3)),
    "uneven": (3, lambda: data_parallel(3)),
    "tensor": (4, lambda: tensor_parallel(2, 2)),
    "tensor and zero": (4, lambda: tensor_parallel(2, 2, 2)),
    "pipeline": (2, lambda: pipelined()),
    "1F1B": (2, lambda: pipelined("1F1B")),
    "data and pipeline": (4, data_and_pipeline),
    "ZB-V": (2, lambda: pipelined("ZB-V", (0, 1, 1, 0))),
    "data and interleaved": (4, lambda: data_and_pipeline("InterleavedZeroBubble", (0, 1, 0, 1))),
}


def ran(job: Any) -> tuple[int, int, int]:
    """The bytes that this rank sends in a step, its arena, and its instructions."""
    graph, *inputs = job()
    graph(*inputs)
    _oneflow._reset_wire_counters()
    graph(*inputs)
    sent = sum(n for kind, n, _ in _oneflow._wire_counters() if kind not in ("barrier", "recv"))
    return sent, graph.memory()["peak"], len(graph.memory_timeline())


@pytest.mark.parametrize("name", JOBS)
def test_ranks_send_and_hold_what_they_do_when_they_run(name: str) -> None:
    n, job = JOBS[name]
    report = dry_run(job, cluster=cluster(n))
    assert report.fits and report.n_ranks == n
    for rank, (sent, arena, n_instructions) in enumerate(run_ranks(n, ran, job)):
        (own,) = [c for c in report.classes if rank in c["ranks"]]
        assert report.ranks[rank]["sent"] == sent, rank
        assert own["instructions"] == n_instructions, rank
        memory = own["memory"]
        assert own["peak"] == sum(memory.values())
        assert min(memory.values()) >= 0, memory
        graph_parts = own["peak"] - memory["parameters"] - memory["optimizer states"] - memory["communication"]
        assert arena <= graph_parts <= arena + 32 * 64 * 4 + 4096, rank


def test_bytes_are_those_of_the_formula() -> None:
    n, size = 8, (64 * 128 + 128 + 128 * 62 + 62) * 4
    whole = dry_run(data_parallel, cluster=cluster(n))
    assert sum(r["sent"] for r in whole.ranks) == 2 * (n - 1) * size
    assert sum(sent for _, sent in whole.links) == 2 * (n - 1) * size
    # Gathered in the forward and in the backward, and reduced: three times (n - 1) / n.
    split = dry_run(data_parallel, 3, cluster=cluster(n))
    assert sum(r["sent"] for r in split.ranks) == 3 * (n - 1) * size


def test_a_step_takes_its_work_and_its_messages() -> None:
    quick = dry_run(data_parallel, cluster=cluster(4))
    rank = quick.ranks[0]
    assert quick.step_seconds == pytest.approx(rank["compute"] + rank["communication"] + rank["wait_collective"])
    across = dry_run(data_parallel, cluster=cluster(4, hosts=4))
    assert across.ranks[0]["communication"] > 9 * rank["communication"]
    # Two rings, one through the link of either device of a host, with half of the bytes each.
    pairs = dry_run(data_parallel, cluster=cluster(4, hosts=2))
    assert 5 < pairs.ranks[0]["communication"] / rank["communication"] < 6
    assert across.ranks[0]["compute"] == pytest.approx(rank["compute"])
    shared = Cluster("test", 1, 4, 1e11, 1e11, 1e9, Link(0.0, 1e9, shared=True), Link(0.0, 1e9))
    alone = Cluster("test", 1, 4, 1e11, 1e11, 1e9, Link(0.0, 1e9), Link(0.0, 1e9))
    one, four = (dry_run(data_parallel, cluster=c).ranks[0]["communication"] for c in (alone, shared))
    assert four == pytest.approx(4 * one)


def test_programs_take_time_between_steps() -> None:
    plain, found = (dry_run(data_parallel, cluster=cluster(4, call=call)) for call in (0.0, 0.25))
    assert found.step_seconds == pytest.approx(plain.step_seconds + 0.25)
    assert found.ranks[0]["compute"] == pytest.approx(plain.ranks[0]["compute"])


def test_copies_between_processes_are_work_of_their_cores() -> None:
    """What hides behind work on devices with cores of their own does not where ranks have no core to spare."""
    job = (data_and_pipeline, "1F1B", (0, 1), 256)
    own, many, few = (dry_run(*job, cluster=cluster(4, cores=cores)) for cores in (0, 16, 4))
    assert own.step_seconds == pytest.approx(many.step_seconds)
    assert few.step_seconds > 1.02 * many.step_seconds
    assert sum(r["sent"] for r in few.ranks) == sum(r["sent"] for r in own.ranks)


@pytest.mark.parametrize(
    "name", ["GPipe", "1F1B", "Interleaved1F1B", "ZB-H1", "InterleavedZeroBubble", "ZB-V", "DualPipeV"]
)
@pytest.mark.parametrize("n_ranks", [2, 4])
def test_bubbles_are_those_of_the_tables(name: str, n_ranks: int) -> None:
    table = make_table(name, n_ranks, 4 * n_ranks)
    found = simulate_schedule(table)
    assert max(found.bubble) == table.bubble()
    assert found.seconds == table.makespan()
    times = {"F": 2.0, "B": 3.0, "W": 1.0}
    assert max(simulate_schedule(table, seconds=times).bubble) == table.bubble({"F": 2, "B": 3, "W": 1})


def test_a_table_moves_messages_over_links() -> None:
    table = PipelineTable([["0F0", "0B0"], ["1F0", "1B0"]])
    slow_links = Cluster("test", 1, 2, 1.0, 1.0, 1.0, Link(1.0, 2.0), Link(1.0, 2.0))
    found = simulate_schedule(table, slow_links, message_bytes=4)
    # Each message takes a second of latency and two of bytes.
    assert found.seconds == table.makespan() + 6 and found.sent == [4, 4]
    with pytest.raises(ValueError, match="2 ranks on 1 devices"):
        simulate_schedule(table, cluster(1))


def test_a_pipeline_of_a_graph_has_a_bubble() -> None:
    busy = Cluster("busy", 1, 2, 1e8, 1e8, 1e9, Link(0.0, 1e12), Link(0.0, 1e12))
    report = dry_run(pipelined, "1F1B", cluster=busy)
    waits = [r["wait_message"] for r in report.ranks]
    assert report.bubble > 0 and max(waits) > 0
    assert [c["ranks"] for c in report.classes] == [[0], [1]]
    # A slow stage keeps the other one waiting.
    slow = dry_run(pipelined, "1F1B", cluster=busy, slow={1: 10.0})
    assert slow.step_seconds > 5 * report.step_seconds
    assert slow.ranks[0]["wait_message"] > waits[0] and slow.ranks[1]["compute"] > 9 * report.ranks[1]["compute"]


@pytest.mark.parametrize("schedule", ["Interleaved1F1B", "InterleavedZeroBubble"])
def test_gradients_of_a_stage_are_reduced_between_turns_of_others(schedule: str) -> None:
    """Where each row has two stages, those of the later one are there before the row is done."""
    report = dry_run(data_and_pipeline, schedule, (0, 1, 0, 1), 256, cluster=cluster(4))
    for rank in (0, 2):
        spans = [span for span in report.spans if span[0] == rank]
        # Two weights and two biases, maybe in buckets.
        reduced = sorted(span[2] for span in spans if span[5].startswith("all_reduce"))
        products = sorted(span[3] for span in spans if "linear_backward" in span[5] or "matmul" in span[5])
        assert sum(start < products[-1] for start in reduced) >= 1, (rank, reduced, products)
        last = max(span[2] for span in spans if "cross" in span[5])
        assert rank == 0 or reduced[0] < last, (rank, reduced, last)


def programs(job: Any, n: int, share: bool) -> list[str]:
    """The programs of a job's classes of ranks, with values numbered in the order in which they appear."""
    with described(cluster(n)):
        graph, *inputs = job()
        plans = Plans(graph, tuple(inputs), {}, cluster(n), share)
    return [renumbered(compiled.text(False).partition("\n")[2]) for compiled in plans.compiled]


def renumbered(text: str) -> str:
    numbers: dict[str, str] = {}
    text = re.sub(r"; \d{6,}\)", ")", re.sub(r"  #.*", "", text))
    return re.sub(r"%\d+", lambda m: numbers.setdefault(m[0], f"%v{len(numbers)}"), text)


@pytest.mark.parametrize(
    ("n", "job"),
    [
        (4, lambda: pipelined("1F1B", (0, 1, 2, 3))),
        (2, lambda: pipelined("ZB-V", (0, 1, 1, 0))),
        (4, data_and_pipeline),
        *[(4, lambda seed=seed, again=again: planned(seed, again)) for seed in range(3) for again in (False, True)],
    ],
)
def test_stages_of_other_ranks_are_traced_once(n: int, job: Any) -> None:
    calls: list[int] = []
    forward = nn.GELU.forward

    def counted(self: Any, x: torch.Tensor) -> torch.Tensor:
        calls.append(id(self))
        return forward(self, x)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(nn.GELU, "forward", counted)
        alone = programs(job, n, False)
        every, calls[:] = len(calls), []
        assert programs(job, n, True) == alone
    assert len(calls) < every


def test_memory_of_a_pipeline_does_not_grow_with_micro_batches() -> None:
    def job(micro_batches: int) -> tuple[Any, ...]:
        torch.manual_seed(0)
        places = [torch.placement("cpu", [2 * k, 2 * k + 1]) for k in range(3)]
        parts = [nn.Sequential(nn.Linear(32, 256), nn.GELU(), nn.Linear(256, 32)) for _ in places]
        for number, (stage, place) in enumerate(zip(parts, places, strict=True)):
            stage.to_global(place, B).to(nn.graph.GraphModule).set_stage(number, place)
        x = torch.ones(64 * micro_batches, 32, placement=places[0], sbp=S0)
        return Step(nn.Sequential(*parts), 0, micro_batches, "1F1B"), x

    peaks = []
    for micro_batches in (6, 24):
        with described(cluster(6)):
            graph, x = job(micro_batches)
            peaks.append([c.memory()["peak"] for c in Plans(graph, (x,), {}, cluster(6)).compiled])
    # The first stage cuts micro-batches of the whole batch. Activations of all would be four times as much.
    few, many = (p[1:] for p in peaks)
    assert len(few) == 2 and all(b <= 1.2 * a for a, b in zip(few, many, strict=True)), peaks


def test_what_does_not_fit_is_named() -> None:
    report = dry_run(data_parallel, cluster=cluster(4, memory=150e3))
    assert not report.fits and "DOES NOT RUN" in report.table()
    (said,) = report.out_of_memory
    assert (
        f"rank 0-3: {report.peak / 1e3:.2f} KB of 150.00 KB, before the step; most of it are optimizer states" in said
    )
    roomy = dry_run(data_parallel, cluster=cluster(4, memory=report.peak - 1))
    assert "first over at" in roomy.out_of_memory[0] and "test_dry_run.py" in roomy.out_of_memory[0]
    assert dry_run(data_parallel, cluster=cluster(4, memory=report.peak)).fits


def test_a_lost_rank_is_waited_for() -> None:
    report = dry_run(data_parallel, cluster=cluster(4), lost=(2, 0.0))
    assert len(report.stuck) == 3 and not report.fits
    assert all("waits for rank 2 in all_reduce P -> B" in said and "test_dry_run.py" in said for said in report.stuck)
    later = dry_run(pipelined, "1F1B", cluster=cluster(2), lost=(1, 0.0))
    assert "rank 0 never ends" in later.stuck[0] and "a message of rank 1" in later.stuck[0]


def test_a_model_larger_than_this_machine() -> None:
    def job(zero: int) -> tuple[Any, ...]:
        place = torch.placement.all("cpu")
        model = nn.Sequential(*[nn.Linear(40_960, 40_960, bias=False) for _ in range(32)])
        return Step(model.to_global(place, B), zero), torch.ones(1024, 40_960, placement=place, sbp=S0)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = dry_run(job, 3, cluster="128xh100")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    # 215 GB of weights, three times as much with the states; all of it on each rank without ZeRO.
    assert report.classes[0]["memory"]["parameters"] == 32 * 40_960**2 * 4 // 128
    assert grown < 1 << 20, f"{grown} KiB"
    assert report.fits and not dry_run(job, 0, cluster="128xh100").fits


def test_programs_do_not_grow_with_the_world() -> None:
    def job() -> tuple[Any, ...]:
        place = torch.placement.all("cpu")
        return Step(nn.Linear(64, 64).to_global(place, B), 2), torch.ones(64, 64, placement=place, sbp=S0)

    few, many = (dry_run(job, cluster=cluster(n, hosts=n // 8)) for n in (16, 32))
    assert many.n_ranks == 32 and len(many.classes) == len(few.classes) == 1
    assert many.classes[0]["instructions"] == few.classes[0]["instructions"]


def test_graphs_inside_of_a_described_world() -> None:
    with described(cluster(4)):
        graph, x = data_parallel()
        assert x.to_local().shape == (8, 64) and torch.distributed.get_world_size() == 4
        report = dry_run(graph, x, cluster=cluster(4))
    assert report.n_ranks == 4 and torch.distributed.get_world_size() == 1
    # A local graph is one rank, and runs afterwards.
    alone = Step(mlp())
    assert dry_run(alone, torch.ones(4, 64), cluster=cluster(4)).n_ranks == 1
    assert alone(torch.ones(4, 64)).item() > 0


def test_described_tensors_hold_no_memory() -> None:
    with described(cluster(4), 3):
        assert torch.distributed.get_rank() == 3
        big = torch.ones(1 << 12, 1 << 12)
        assert (big @ big).sum().item() == 0.0
        assert torch.ones(4).sum().item() == 4.0
    assert torch.ones(1 << 16).sum().item() == 1 << 16
    with pytest.raises(ValueError, match="rank 9 is not one of 4"), described(cluster(4), 9):
        pass


def test_measured_times_replace_estimates() -> None:
    graph, x = Step(mlp()), torch.ones(32, 64)
    seconds = measure(graph, x, runs=3)
    assert len(seconds) > 5 and all(s > 0 for s in seconds.values())
    report = dry_run(graph, x, cluster=cluster(1), seconds=dict.fromkeys(seconds, 1.0))
    assert report.step_seconds == report.classes[0]["instructions"]


def test_layouts_are_ranked() -> None:
    def job(dp: int, tp: int) -> tuple[Any, ...]:
        return tensor_parallel(dp, tp)

    found = sweep(job, cluster=cluster(4))
    assert [row["layout"] for row in found.rows] == sorted(
        ({"dp": d, "tp": t} for d, t in ((1, 4), (2, 2), (4, 1))),
        key=lambda layout: dry_run(job, cluster=cluster(4), **layout).step_seconds,
    )
    assert found.best == found.rows[0]["layout"] and "dp=4 tp=1" in found.table()
    bad = sweep(job, cluster=cluster(4), layouts=[{"dp": 4, "tp": 2}, {"dp": 2, "tp": 2}])
    assert bad.best == {"dp": 2, "tp": 2} and bad.rows[1]["report"] is None and bad.rows[1]["error"]
    with pytest.raises(ValueError, match="no parameter of dp"):
        sweep(lambda: data_parallel(), cluster=cluster(4))


SCRIPT = """
import sys
import oneflow as torch
from oneflow import nn

place = torch.placement.all("cpu")
model = nn.Linear(1024, 1024).to_global(place, torch.sbp.broadcast)


class Train(nn.Graph):
    def __init__(self):
        super().__init__()
        self.model = model
        self.add_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))

    def build(self, x):
        loss = self.model(x).square().mean()
        loss.backward()
        return loss


step = Train()
for _ in range(int(sys.argv[1])):
    step(torch.ones(64, 1024, placement=place, sbp=torch.sbp.split(0)))
    print("went on")
"""

TOML = """
devices_per_host = 2
[device]
flops = 1e12
memory_bandwidth = 1e11
memory = 1e9
[inside]
latency = 1e-6
bandwidth = 1e9
shared = true
"""


def command(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "oneflow.dryrun", "--cluster", "cluster.toml", *options]
    env = {**os.environ, "PYTHONPATH": str(Path(torch.__file__).parents[1])}
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, env=env)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs tomllib")
def test_a_script_is_simulated_in_place_of_its_first_call(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "cluster.toml").write_text(TOML)
    files = ["--html", "run.html", "--trace", "run.json", "--json", "report.json"]
    done = command(tmp_path, *files, "train.py", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Train_0 on cluster, 2 of 2 devices") and "went on" not in done.stdout
    report = json.loads((tmp_path / "report.json").read_text())
    assert sum(r["sent"] for r in report["ranks"]) == 2 * (1024 * 1024 + 1024) * 4
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    assert {"compute", "communication"} <= {e.get("cat") for e in events}
    page = (tmp_path / "run.html").read_text()
    assert "<canvas" in page and "http" not in page and "train.py:" in page
    lost = command(tmp_path, "--lost", "1@0", "--slow", "0=2", "train.py", "1")
    assert lost.returncode == 1 and "rank 0 never ends" in lost.stdout
    none = command(tmp_path, "train.py", "0")
    assert none.returncode == 2 and "called no nn.Graph" in none.stderr
    (tmp_path / "cluster.toml").write_text(TOML.replace("1e12", "-1"))
    bad = command(tmp_path, "train.py", "1")
    assert bad.returncode == 2 and "flops must be a positive number" in bad.stderr


def test_printed_reports_are_their_tables() -> None:
    report = dry_run(data_parallel, cluster=cluster(2))
    assert str(report) == report.table()
    assert repr(report) == f"<Report of {report.table().splitlines()[0]}>"


def test_bad_input_is_refused() -> None:
    with pytest.raises(TypeError, match="or a function that makes one"):
        dry_run(3, cluster=cluster(2))
    with pytest.raises(TypeError, match="the function must return an"):
        dry_run(lambda: 3, cluster=cluster(2))
    with pytest.raises(ValueError, match="5 ranks on test, which has 4 devices"), described(cluster(4), 0, 5):
        pass
    with described(cluster(4)), pytest.raises(ValueError, match="4 ranks on test, which has 2 devices"):
        dry_run(*data_parallel(), cluster=cluster(2))
    for slow, said in (({7: 2.0}, "no rank 7"), ({0: 0.0}, "slower by a factor of 0")):
        with pytest.raises(ValueError, match=said):
            dry_run(data_parallel, cluster=cluster(2), slow=slow)
    with pytest.raises(ValueError, match="a simulation of no step"):
        dry_run(data_parallel, cluster=cluster(2), steps=0)
    with pytest.raises(ValueError, match="launch must be a number of at least 0"):
        cluster(2, launch=-1.0)
    with pytest.raises(ValueError, match=r"inside\.shared must be true or false"):
        Cluster("test", 1, 2, 1.0, 1.0, 1.0, Link(0.0, 1.0, shared=1), Link(0.0, 1.0))  # type: ignore[arg-type]
