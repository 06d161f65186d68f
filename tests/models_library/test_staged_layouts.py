"""Pipelines together with context parallelism, experts and overlapped products: the losses of one rank."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import oneflow as flow
import pytest
from oneflow import distributed, models, nn
from oneflow.auto_parallel import Cluster, Link
from oneflow.dryrun import dry_run
from oneflow.models.layers import MoE

BATCH, TIME, WIDTH, VOCABULARY, LAYERS, EXPERTS, HIDDEN = 4, 8, 16, 50, 4, 4, 12
ACTIVATION = 8 * BATCH * TIME * WIDTH
SEQUENCE: dict[str, Any] = {"tp": 2, "sequence_parallel": True}


@pytest.fixture(autouse=True)
def default_dtype() -> Any:
    flow.set_default_dtype(flow.float64)
    yield
    flow.set_default_dtype(flow.float32)


def made(experts: dict[str, Any] | None, time: int = TIME) -> tuple[Any, tuple[Any, Any]]:
    """A Llama of four blocks, with experts or without, and a batch."""
    flow.manual_seed(0)
    words = flow.randint(0, VOCABULARY, (BATCH, time + 1))
    batch = (words[:, :-1].contiguous(), words[:, 1:].contiguous())
    sizes: dict[str, Any] = {"n_layers": LAYERS, "n_heads": 4, "n_kv_heads": 2, "width": WIDTH, "hidden": 24}
    if experts is None:
        return models.Llama(models.LlamaConfig(VOCABULARY, 16, **sizes)), batch
    config = models.MoELlamaConfig(
        VOCABULARY, 16, **{**sizes, "expert_hidden": HIDDEN, "n_experts": EXPERTS, **experts}
    )
    return models.MoELlama(config), batch


class Step(nn.Graph):
    def __init__(self, layout: models.ParallelLayout, model: Any, steps: int = 1) -> None:
        super().__init__()
        self.model = model
        self.add_optimizer(flow.optim.AdamW(model.parameters(), lr=1e-3))
        if steps > 1:
            self.config.set_gradient_accumulation_steps(steps)
        layout.configure(self)

    def build(self, *given: Any) -> Any:
        loss = self.model(*given)
        loss.backward()
        return loss


def train(
    options: dict[str, Any],
    experts: dict[str, Any] | None = None,
    n_steps: int = 20,
    traced: bool = True,
    dtype: str = "float64",
    time: int = TIME,
    accumulated: int = 1,
) -> tuple[list[float], dict[str, int]]:
    """The losses of a layout, and what the last step sent."""
    flow.set_default_dtype(getattr(flow, dtype))
    model, batch = made(experts, time)
    layout = models.ParallelLayout(**options)
    given = layout.batch(*batch)
    layout.place(model)
    optimizer = flow.optim.AdamW(model.parameters(), lr=1e-3)
    step, losses, sent = Step(layout, model, accumulated) if traced else None, [], {}
    for _ in range(n_steps):
        distributed.reset_wire_counters()
        if step is not None:
            loss = step(*given)
        else:
            optimizer.zero_grad()
            loss = model(*given)
            loss.backward()
            optimizer.step()
        sent = distributed.wire_bytes()
        losses.append(layout.mean(loss))
    return losses, sent


def n_ranks(options: dict[str, Any]) -> int:
    return math.prod(options.get(name, 1) for name in ("pp", "dp", "ep", "cp", "tp"))


_alone: dict[str, list[float]] = {}


def alone(*how: Any) -> list[float]:
    """The losses of one rank without a graph."""
    key = repr(how)
    if key not in _alone:
        experts, n_steps, *rest = how
        ((losses, _),) = flow.testing.run_ranks(1, train, {}, experts, n_steps, False, *rest)
        assert losses[0] != losses[-1]
        _alone[key] = losses
    return _alone[key]


def check(options: dict[str, Any], experts: dict[str, Any] | None, traced: bool, n_steps: int = 20) -> None:
    for losses, _ in flow.testing.run_ranks(n_ranks(options), train, options, experts, n_steps, traced):
        assert losses == pytest.approx(alone(experts, n_steps), rel=1e-9)


CONTEXT: list[dict[str, Any]] = [
    {"pp": 2, "cp": 2, "micro_batches": 4},
    {"pp": 2, "cp": 4, "micro_batches": 2},
    {"pp": 4, "cp": 2, "micro_batches": 2, "schedule": "GPipe", "recompute": True},
    {"pp": 2, "cp": 2, "micro_batches": 4, "schedule": "ZB-H1"},
    {"pp": 2, "virtual": 2, "cp": 2, "micro_batches": 4, "schedule": "ZB-V"},
    {"pp": 2, "virtual": 2, "cp": 2, "micro_batches": 2, "schedule": "Interleaved1F1B", "context": "allgather"},
    {"pp": 2, "cp": 2, "micro_batches": 2, "context": "ulysses"},
    {"pp": 2, "cp": 2, "micro_batches": 2, **SEQUENCE},
    {"pp": 2, "cp": 2, "micro_batches": 2, "vocabulary_parallel": True, "recompute": True, **SEQUENCE},
    {"pp": 2, "dp": 2, "cp": 2, "micro_batches": 2, "schedule": "ZB-H1"},
]
OVERLAPPED: list[dict[str, Any]] = [
    {"pp": 2, "micro_batches": 4, "async_tp": True, **SEQUENCE},
    {"pp": 2, "micro_batches": 4, "async_tp": True, "schedule": "ZB-H1", "vocabulary_parallel": True, **SEQUENCE},
    {"pp": 2, "cp": 2, "micro_batches": 2, "async_tp": True, "recompute": True, **SEQUENCE},
]


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("options", [*CONTEXT, *OVERLAPPED], ids=str)
def test_parts_of_sequences_in_stages(options: dict[str, Any], traced: bool) -> None:
    check(options, None, traced)


@pytest.mark.parametrize("zero", [1, 2, 3])
@pytest.mark.parametrize("options", [CONTEXT[-1], {"pp": 2, "dp": 2, "micro_batches": 2, "async_tp": True, **SEQUENCE}])
def test_slices_in_stages(options: dict[str, Any], zero: int) -> None:
    check({**options, "zero": zero}, None, True, 6)


@pytest.mark.parametrize("time", [7, 5])
@pytest.mark.parametrize("options", [CONTEXT[1], CONTEXT[3], CONTEXT[5], OVERLAPPED[2]], ids=str)
def test_uneven_lengths(options: dict[str, Any], time: int) -> None:
    """Of five positions over four ranks some ranks have nothing to do with what comes by."""
    for losses, _ in flow.testing.run_ranks(n_ranks(options), train, options, None, 4, True, "float64", time):
        assert losses == pytest.approx(alone(None, 4, "float64", time), rel=1e-9)


EXPERTS_IN_STAGES: list[dict[str, Any]] = [
    {"pp": 2, "micro_batches": 2},
    {"pp": 2, "ep": 2, "micro_batches": 2},
    {"pp": 2, "ep": 4, "micro_batches": 1, "schedule": "GPipe"},
    {"pp": 2, "ep": 2, "micro_batches": 2, "schedule": "ZB-H1", "recompute": True},
    {"pp": 2, "virtual": 2, "ep": 2, "micro_batches": 2, "schedule": "Interleaved1F1B"},
    {"pp": 2, "ep": 2, "tp": 2, "micro_batches": 2},
    {"pp": 2, "ep": 2, "micro_batches": 2, "async_tp": True, "vocabulary_parallel": True, **SEQUENCE},
    {"pp": 2, "dp": 2, "ep": 2, "micro_batches": 1, "schedule": "GPipe"},
]
WITH_CONTEXT: list[dict[str, Any]] = [
    {"pp": 2, "ep": 2, "cp": 2, "micro_batches": 2},
    {"pp": 2, "ep": 2, "cp": 2, "micro_batches": 2, "schedule": "ZB-H1", "context": "ulysses", "recompute": True},
    {"pp": 2, "cp": 2, "micro_batches": 2, "schedule": "ZB-H1", "context": "ulysses", **SEQUENCE},
]
MIXTURES: dict[str, dict[str, Any]] = {
    "dropless": {"n_kv_heads": 4},
    "capacity": {"capacity_factor": 0.6, "shared_hidden": 8, "score": "sigmoid"},
    "idle": {"n_kv_heads": 4, "n_experts": 16, "top_k": 1, "n_dense": 1},
}
CASES = [(name, o) for name in MIXTURES for o in EXPERTS_IN_STAGES + WITH_CONTEXT * (name != "capacity")]


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_experts_in_stages(name: str, options: dict[str, Any], traced: bool) -> None:
    check(options, MIXTURES[name], traced)


@pytest.mark.parametrize("options", [CONTEXT[4], OVERLAPPED[1], WITH_CONTEXT[0]], ids=str)
def test_single_precision(options: dict[str, Any]) -> None:
    experts = {} if "ep" in options else None
    for losses, _ in flow.testing.run_ranks(n_ranks(options), train, options, experts, 5, True, "float32"):
        assert losses == pytest.approx(alone(experts, 5, "float32"), rel=1e-5)


BALANCED: list[dict[str, Any]] = [
    {"pp": 2, "micro_batches": 2},
    {"pp": 2, "micro_batches": 2, "schedule": "ZB-H1", "recompute": True},
    {"pp": 2, "virtual": 2, "micro_batches": 2, "schedule": "ZB-V", "cp": 2},
    {"pp": 2, "micro_batches": 2, "tp": 2},
]


@pytest.mark.parametrize("options", BALANCED, ids=str)
def test_losses_of_routers_meet_on_the_last_stage(options: dict[str, Any]) -> None:
    """Each micro-batch has its own, as where one rank accumulates gradients."""
    experts = {"balance": 0.1}
    ((expected, _),) = flow.testing.run_ranks(1, train, {}, experts, 10, True, "float64", TIME, 2)
    assert expected != alone({}, 10)
    for losses, _ in flow.testing.run_ranks(n_ranks(options), train, options, experts, 10):
        assert losses == pytest.approx(expected, rel=1e-9)


def test_bytes_between_stages_and_parts() -> None:
    """A boundary passes each part once and its gradient back; keys and values go around three times."""
    options = {"pp": 2, "cp": 2, "micro_batches": 2}
    found = flow.testing.run_ranks(4, train, options, None, 2)
    # Of keys and values there are half as many heads.
    hops = LAYERS * 3 * ACTIVATION // 2 * 2
    assert sum(sent.get("send", 0) for _, sent in found) == 2 * ACTIVATION + hops


def test_bytes_of_experts_with_places() -> None:
    """Each rank's places for experts of others travel there and back, forward and backward."""
    factor = 1.0
    options = {"pp": 2, "ep": 2, "micro_batches": 2}
    found = flow.testing.run_ranks(4, train, options, {"capacity_factor": factor}, 2)
    capacity = math.ceil(factor * TIME * 2 / EXPERTS)
    places = EXPERTS * (BATCH // 2) * capacity * WIDTH * 8
    for _, sent in found:
        assert sent["all_to_all"] == 4 * LAYERS // 2 * places // 2


def job(**options: Any) -> tuple[Any, ...]:
    flow.set_default_dtype(flow.float64)
    model, batch = made({} if options.get("ep", 1) > 1 else None)
    layout = models.ParallelLayout(**options)
    given = layout.batch(*batch)
    return (Step(layout, layout.place(model)), *given)


@pytest.mark.parametrize("options", [CONTEXT[0], CONTEXT[3], OVERLAPPED[0], EXPERTS_IN_STAGES[1]], ids=str)
def test_dry_runs_send_what_ranks_send(options: dict[str, Any]) -> None:
    n = n_ranks(options)
    cluster = Cluster("test", 1, n, 1e11, 1e11, 1e9, Link(1e-6, 1e9), Link(1e-5, 1e8))
    report = dry_run(job, cluster=cluster, **options)
    assert report.fits and not report.stuck
    experts = {} if "ep" in options else None
    for rank, (_, sent) in enumerate(flow.testing.run_ranks(n, train, options, experts, 2)):
        bytes_sent = sum(count for kind, count in sent.items() if kind not in ("barrier", "recv"))
        assert report.ranks[rank]["sent"] == bytes_sent, rank


def test_what_does_not_fit_is_refused() -> None:
    def refused() -> None:
        flow.set_default_dtype(flow.float64)
        layout = models.ParallelLayout(pp=2, cp=2, micro_batches=2)
        with pytest.raises(ValueError, match="tokens of a whole sequence compete for places"):
            layout.place(made({"capacity_factor": 1.0})[0])
        layout = models.ParallelLayout(pp=2, ep=2, micro_batches=2)
        with pytest.raises(ValueError, match="Llama has no mixture of experts to split over ep=2 ranks"):
            layout.place(made(None)[0])
        with pytest.raises(ValueError, match=r"blocks\.0\.mlp: 3 experts do not divide by ep=2"):
            layout.place(made({"n_experts": 3})[0])
        with pytest.raises(ValueError, match=r"\(6, 2\) does not divide by dp=1 times ep=2 times micro_batches=2"):
            layout.batch(flow.zeros(6, 2))
        layer = MoE(WIDTH, HIDDEN, EXPERTS, capacity_factor=9.0)
        assert layer.capacity(8) == 8 and MoE(WIDTH, HIDDEN, EXPERTS, capacity_factor=0.6).capacity(8) == 3

    flow.testing.run_ranks(4, refused)


SCRIPT = """
import json, os, sys
sys.path.insert(0, {tests!r})
import oneflow as flow
import test_staged_layouts
flow.set_default_dtype(flow.float64)
found = [test_staged_layouts.train(options, experts, 3)[0] for options, experts in {cases!r}]
with open({out!r} + os.environ["RANK"], "w") as f:
    json.dump(found, f)
"""


def test_four_processes(tmp_path: Path) -> None:
    cases = [(CONTEXT[0], None), (CONTEXT[3], None), (OVERLAPPED[1], None), (EXPERTS_IN_STAGES[1], {})]
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent), cases=cases, out=str(tmp_path / "losses")))
    command = [sys.executable, "-m", "oneflow.distributed.launch", "--nproc-per-node", "4", str(script)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    for rank in range(4):
        found = json.loads((tmp_path / f"losses{rank}").read_text())
        for losses, (_, experts) in zip(found, cases, strict=True):
            assert losses == pytest.approx(alone(experts, 20)[:3], rel=1e-9)
