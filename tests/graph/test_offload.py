"""GraphConfig.enable_offload: the bits of a graph without it, files in place of memory, and what is refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import oneflow as torch
import pytest
from oneflow import nn
from oneflow.auto_parallel import Cluster, Link, plan
from oneflow.boxing import nccl
from oneflow.dryrun import dry_run
from oneflow.testing import run_ranks

WIDTH, KIB = 192, 1024
OPTIMIZERS: dict[str, Any] = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "amsgrad": lambda p: torch.optim.AdamW(p, lr=1e-2, amsgrad=True),
    "momentum": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-2, initial_accumulator_value=0.5),
}


class Step(nn.Graph):
    def __init__(self, optimizer: str, offload: dict[str, Any] | None, place: Any = None, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(6)])
        self.model = model if place is None else model.to_global(place, torch.sbp.broadcast)
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.add_optimizer(self.optimizer)
        if offload is not None:
            self.config.enable_offload(**offload)
        if options.get("recompute"):
            for layer in self.model:
                layer.to(nn.graph.GraphModule).activation_checkpointing = True
        if options.get("amp"):
            self.config.enable_amp(dtype=torch.bfloat16)
        if options.get("zero"):
            self.config.enable_zero(stage=options["zero"], shard_min_size=16)
        self.clip = options.get("clip", False)
        self.config.set_gradient_accumulation_steps(options.get("micro", 1))

    def build(self, x: torch.Tensor) -> torch.Tensor:
        loss = self.model(x).float().square().mean()
        loss.backward()
        if self.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)
        return loss


def batches(n: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(4, WIDTH, generator=generator) for _ in range(n)]


def trained(step: Step, n_steps: int = 4) -> list[bytes]:
    losses = [step(x).numpy().tobytes() for x in batches(n_steps)]
    return losses + [p.detach().numpy().tobytes() for p in step.model.parameters()]


@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
@pytest.mark.parametrize("parameters", [False, True])
def test_every_bit_is_that_of_memory(tmp_path: Path, optimizer: str, parameters: bool) -> None:
    offloaded = Step(optimizer, {"to": tmp_path, "parameters": parameters, "window": 300 * KIB})
    assert trained(offloaded) == trained(Step(optimizer, None))
    n_states = {"adamw": 2, "amsgrad": 3, "momentum": 1, "adagrad": 1}[optimizer]
    assert offloaded.memory()["offloaded"] == 6 * WIDTH * WIDTH * 4 * (n_states + parameters)


@pytest.mark.parametrize("options", [{"recompute": True}, {"amp": True}, {"clip": True}, {"micro": 2}], ids=str)
def test_with_other_settings(tmp_path: Path, options: dict[str, Any]) -> None:
    offload = {"to": tmp_path, "parameters": True, "window": 300 * KIB}
    assert trained(Step("adamw", offload, **options)) == trained(Step("adamw", None, **options))


def test_a_window_stays_in_memory(tmp_path: Path) -> None:
    step = Step("adamw", {"to": tmp_path, "window": 2 * WIDTH * WIDTH * 4})
    step(batches(1)[0])
    for _ in range(200):
        # The thread that writes ends some time after the step.
        memory = step.memory()
        if memory["offloaded_resident"] <= memory["offloaded"] / 2:
            break
        torch.ones(64, 64) @ torch.ones(64, 64)
    assert memory["offloaded"] == 12 * WIDTH * WIDTH * 4
    assert memory["offloaded_resident"] <= memory["offloaded"] / 2
    # Nobody finds the files, and somebody who reads a state reads its numbers.
    assert list(tmp_path.iterdir()) == []
    plain = Step("adamw", None)
    plain(batches(1)[0])
    for state, other in zip(step.optimizer.state.values(), plain.optimizer.state.values(), strict=True):
        assert torch.equal(state["exp_avg_sq"], other["exp_avg_sq"])


def test_states_that_are_loaded_go_to_files_too(tmp_path: Path) -> None:
    plain = Step("adamw", None)
    trained(plain, 2)
    kept = pickle.loads(pickle.dumps((plain.model.state_dict(), plain.optimizer.state_dict())))
    step = Step("adamw", {"to": tmp_path})
    trained(step, 1)
    step.model.load_state_dict(kept[0])
    step.optimizer.load_state_dict(kept[1])
    for x in batches(4)[2:]:
        assert torch.equal(step(x), plain(x))
    assert step.memory()["offloaded"] == 12 * WIDTH * WIDTH * 4


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_ranks_offload_their_slices(tmp_path: Path, zero: int) -> None:
    def rank(offload: dict[str, Any] | None) -> tuple[list[float], int]:
        place = torch.placement.all("cpu")
        step = Step("adamw", offload, place, zero=zero)
        losses = [step(x.to_global(place, torch.sbp.broadcast).to_global(sbp=torch.sbp.split(0))) for x in batches(3)]
        return [loss.to_global(sbp=torch.sbp.broadcast).to_local().item() for loss in losses], step.memory()[
            "offloaded"
        ]

    offload = {"to": tmp_path, "parameters": True, "window": 300 * KIB}
    for (losses, _), (others, n) in zip(run_ranks(2, rank, None), run_ranks(2, rank, offload), strict=True):
        assert losses == others
        assert n == 6 * 3 * WIDTH * WIDTH * 4 // (2 if zero else 1)


def test_dry_run_shows_what_lies_on_a_disk() -> None:
    link = Link(1e-6, 1e9)
    cluster = Cluster("test", 1, 2, 1e12, 1e12, 1e9, link, link, disk=1e6)

    def job(offload: dict[str, Any] | None) -> tuple[Any, ...]:
        place = torch.placement.all("cpu")
        x = torch.ones(8, WIDTH, placement=place, sbp=torch.sbp.split(0))
        return Step("adamw", offload, place, zero=1), x

    plain, found = (dry_run(job, o, cluster=cluster) for o in (None, {"window": 0}))
    states = 6 * WIDTH * WIDTH * 4  # two of each parameter, half of both on each rank
    assert plain.classes[0]["offloaded"] == 0 and found.classes[0]["offloaded"] == states
    assert plain.classes[0]["memory"]["optimizer states"] - found.classes[0]["memory"]["optimizer states"] == states
    # States come and go once a step, and nothing else here takes as long.
    assert found.step_seconds - plain.step_seconds == pytest.approx(2 * states / 1e6, rel=0.01)
    assert "on disk" in found.table() and "on disk" not in plain.table()
    with pytest.raises(ValueError, match="offloads to a disk, and the cluster has none"):
        dry_run(job, {}, cluster=Cluster("test", 1, 2, 1e12, 1e12, 1e9, link, link))


HOST = Link(1e-6, 1e8)


def described(host: Link | None = HOST, devices: int = 2) -> Cluster:
    link = Link(1e-6, 1e12)
    return Cluster("test", 1, devices, 1e12, 1e12, 1e9, link, link, host=host)


def on_ranks(offload: dict[str, Any] | None, zero: int = 0, micro: int = 1) -> tuple[Any, ...]:
    place = torch.placement.all("cpu")
    x = torch.ones(8, WIDTH, placement=place, sbp=torch.sbp.split(0))
    return Step("adamw", offload, place, zero=zero, micro=micro), x


def moved(report: Any) -> dict[str, int]:
    """Bytes from and to the host, of all devices."""
    found = {"in": 0, "out": 0}
    for name, n in report.links:
        if name.startswith("offload"):
            found[name.split()[-1]] += n
    return found


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_dry_run_counts_states_on_the_host(zero: int) -> None:
    plain, found = (dry_run(on_ranks, o, zero, cluster=described()) for o in (None, {"to": "host"}))
    states = 12 * WIDTH * WIDTH * 4 // (2 if zero else 1)
    assert found.classes[0]["offloaded"] == states and plain.classes[0]["offloaded"] == 0
    assert plain.peak - found.peak == states
    # Each state is read once a step and written once, both ways at the same time.
    assert moved(found) == {"in": 2 * states, "out": 2 * states} and moved(plain) == {"in": 0, "out": 0}
    assert found.step_seconds - plain.step_seconds == pytest.approx(states / HOST.bandwidth, rel=0.02)
    assert "on the host" in found.table() and "offload device in" in found.table()
    both = dry_run(on_ranks, {"to": "host"}, zero, cluster=described(Link(1e-6, 1e8, shared=True)))
    assert both.step_seconds - plain.step_seconds == pytest.approx(2 * states / HOST.bandwidth, rel=0.02)
    with pytest.raises(ValueError, match="offloads to the host, and devices of the cluster have no link to theirs"):
        dry_run(on_ranks, {"to": "host"}, zero, cluster=described(None))


def test_copies_of_parameters_hide_behind_the_layer_before() -> None:
    """Beside compute, most of the time of the copies is gone; the bytes are the same."""

    def job(offload: dict[str, Any] | None, in_line: bool) -> tuple[Any, ...]:
        place = torch.placement.all("cpu")
        x = torch.ones(512, WIDTH, placement=place, sbp=torch.sbp.broadcast)
        nccl.enable_use_compute_stream(in_line)
        return Step("momentum", offload, place), x

    # A layer's product takes as long as the copy of its weight.
    link, options = Link(1e-6, 1e12), {"to": "host", "parameters": True, "optimizer_states": False}
    cluster = Cluster("test", 1, 1, 512 * 2 / 4 * HOST.bandwidth, 1e12, 1e9, link, link, host=HOST)
    try:
        plain, beside = (dry_run(job, o, False, cluster=cluster) for o in (None, options))
        in_line = dry_run(job, options, True, cluster=cluster)
    finally:
        nccl.enable_use_compute_stream(False)
    assert moved(in_line) == moved(beside)
    copies = 11 * WIDTH * WIDTH * 4 / HOST.bandwidth
    hidden = in_line.step_seconds - beside.step_seconds
    assert plain.step_seconds < beside.step_seconds and hidden >= 0.7 * copies, hidden / copies


@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_dry_run_counts_parameters_on_the_host(zero: int, micro: int) -> None:
    options = {"to": "host", "parameters": True}
    states, found = (dry_run(on_ranks, o, zero, micro, cluster=described()) for o in ({"to": "host"}, options))
    slices = 6 * WIDTH * WIDTH * 4 // (2 if zero else 1)
    assert found.classes[0]["offloaded"] == 3 * slices
    # A slice of stages 1 and 2 comes once a step. Else a module's parameter comes for its forward and for its backward.
    # The first module's backward needs none, since its input has no gradient; stage 3 gathers it all the same. Updates
    # read and write each once.
    last = slices // 6
    calls = 1 if zero in (1, 2) else 2 * micro
    less = micro * last if zero == 0 else 0
    fetched = calls * slices - less
    before = moved(states)
    assert moved(found) == {"in": before["in"] + 2 * (slices + fetched), "out": before["out"] + 2 * slices}
    if zero == 3:
        assert found.peak <= states.peak - slices + last
    elif zero == 0:
        # What modules see is there for one of them at a time.
        assert found.peak <= states.peak - slices + 2 * last
    assert found.step_seconds > states.step_seconds


def test_plans_know_what_is_offloaded() -> None:
    """Memory and time of a plan are those of its dry run, and what fits with offload is planned."""
    x = torch.ones(64, WIDTH)

    def step(offload: dict[str, Any] | None) -> Step:
        return Step("adamw", offload)

    plain, found = (plan(step(o), x, cluster=described(), meshes=[(2,)], zero=[0]) for o in (None, {"to": "host"}))

    def job(offload: dict[str, Any] | None) -> tuple[Any, ...]:
        graph = step(offload)
        found.apply(graph)
        return graph, found.place(x)

    without, ran = (dry_run(job, o, cluster=described()) for o in (None, {"to": "host"}))
    states = ran.classes[0]["offloaded"]
    assert plain.peak - found.peak == without.peak - ran.peak == states > 0 and plain.layouts == found.layouts
    assert found.seconds - plain.seconds == pytest.approx(ran.step_seconds - without.step_seconds, rel=0.05)
    assert found.seconds - plain.seconds == pytest.approx(states / HOST.bandwidth, rel=0.02)
    limit = (plain.peak + found.peak) / 2
    with pytest.raises(ValueError, match="no layout over test fits"):
        plan(step(None), x, cluster=described(), memory=limit, meshes=[(2,)], zero=[0])
    assert plan(step({"to": "host"}), x, cluster=described(), memory=limit, meshes=[(2,)], zero=[0]).peak <= limit
    with pytest.raises(ValueError, match="the graph offloads to the host, and devices of test have no link to it"):
        plan(step({"to": "host"}), x, cluster=described(None))
    with pytest.raises(ValueError, match="the graph offloads to a disk"):
        plan(step({}), x, cluster=described())


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"optimizer_states": False}, ValueError, "name what is offloaded"),
        ({"to": 3}, TypeError, "the path of a folder, got int"),
        ({"to": "/no/such/folder"}, ValueError, "no folder '/no/such/folder'"),
        ({"window": -1}, ValueError, "window must be a number of bytes"),
    ],
    ids=str,
)
def test_bad_settings(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Step("adamw", options)


def test_states_of_the_host_are_there_already() -> None:
    with pytest.raises(NotImplementedError, match=r'"host"\) moves tensors of a GPU, and a state is on cpu; to="disk"'):
        Step("adamw", {"to": "host"})(batches(1)[0])


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no folder in memory")
def test_a_folder_in_memory_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Step.*tmpfs|tmpfs"):
        Step("adamw", {"to": "/dev/shm"})(batches(1)[0])


def test_memory_that_others_share_is_refused(tmp_path: Path) -> None:
    step = Step("adamw", {"to": tmp_path, "parameters": True})
    shared = step.model[0][0].weight.detach().numpy()
    with pytest.raises(RuntimeError, match=r"model.0.0.weight: offload: the tensor shares its memory"):
        step(batches(1)[0])
    del shared


def test_it_can_be_ended(tmp_path: Path) -> None:
    step, plain = Step("adamw", {"to": tmp_path}), Step("adamw", None)
    first, second = batches(2)
    assert torch.equal(step(first), plain(first))
    step.config.enable_offload(False)
    assert torch.equal(step(second), plain(second))


class Laid(nn.Graph):
    """Six layers in two stages, or with every matrix split over two ranks."""

    def __init__(self, how: str, offload: dict[str, Any] | None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(6)])
        places = [torch.placement("cpu", [rank] if how == "stages" else [0, 1]) for rank in (0, 1)]
        for number, layer in enumerate(self.model):
            stage = number // 3
            layer.to_global(places[stage], torch.sbp.broadcast)
            if how == "stages":
                layer.to(nn.graph.GraphModule).set_stage(stage, places[stage])
            else:
                # By rows and by columns in turns.
                split = torch.sbp.split(number % 2)
                layer[0].weight = nn.Parameter(layer[0].weight.detach().to_global(sbp=split))
        self.add_optimizer(torch.optim.AdamW(self.model.parameters(), lr=1e-2))
        if offload is not None:
            self.config.enable_offload(**offload)
        if how == "stages":
            self.config.set_gradient_accumulation_steps(2)
            self.config.set_pipeline_schedule("1F1B")
        self.place = places[0]

    def build(self, x: torch.Tensor) -> torch.Tensor:
        loss = self.model(x).square().mean()
        loss.backward()
        return loss


def laid(how: str, folder: Path | None, parameters: bool) -> tuple[list[bytes], int]:
    """The bits of each parameter after some steps, and the bytes that lie in files."""
    offload = None if folder is None else {"to": folder, "parameters": parameters, "window": 300 * KIB}
    step = Laid(how, offload)
    for x in batches(4):
        step(x.to_global(step.place, torch.sbp.broadcast))
    offloaded = step.memory()["offloaded"] if folder is not None else 0
    return [p.detach().to_local().numpy().tobytes() for p in step.model.parameters()], offloaded


@pytest.mark.parametrize("how", ["stages", "matrices"])
@pytest.mark.parametrize("parameters", [False, True])
def test_each_rank_offloads_its_own_part(tmp_path: Path, how: str, parameters: bool) -> None:
    """Stages of a pipeline and split matrices: half of the states is each rank's."""
    expected = run_ranks(2, laid, how, None, False)
    found = run_ranks(2, laid, how, tmp_path, parameters)
    assert [bits for bits, _ in found] == [bits for bits, _ in expected]
    assert [n for _, n in found] == [(2 + parameters) * 3 * WIDTH * WIDTH * 4] * 2
