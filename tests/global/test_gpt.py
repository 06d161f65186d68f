"""The example's GPT over several ranks: the losses of one rank, and the bytes sent as computed by hand."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import oneflow as torch
import oneflow.nn as nn
import pytest
from oneflow import sbp

EXAMPLE = Path(__file__).parents[2] / "examples" / "gpt"
sys.path.insert(0, str(EXAMPLE))

from layout import Layout  # noqa: E402
from model import GPT, GPTConfig  # noqa: E402

CONFIG = GPTConfig(vocabulary=50, block_size=16, n_layers=2, n_heads=4, width=32, dropout=0.1)
BATCH = 8


def batches(n: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(0, CONFIG.vocabulary, (BATCH, CONFIG.block_size + 1), generator=generator) for _ in range(n)]


def train(name: str, n_steps: int = 6) -> tuple[list[float], dict[str, float]]:
    """Train on this rank's part; return the losses and what one forward and backward pass put on the wire."""
    torch.manual_seed(0)
    layout = Layout(name)
    model = layout.spread(GPT(CONFIG))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)
    losses = []
    facts: dict[str, float] = {}
    for windows in batches(n_steps):
        tokens, targets = layout.batch(windows[:, :-1]), layout.batch(windows[:, 1:])
        torch.distributed.reset_wire_counters()
        loss = model(tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        facts = {
            "parameters": sum(p.numel() for p in model.parameters()),
            "held": sum((p.to_local() if p.is_global else p).numel() for p in model.parameters()),
            **torch.distributed.wire_bytes(),
        }
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses, facts


def train_traced(name: str, n_steps: int = 6) -> list[float]:
    """The same as one compiled program: each rank's plan holds its own work, collectives among it."""
    torch.manual_seed(0)
    layout = Layout(name)
    model = layout.spread(GPT(CONFIG))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)

    class Step(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.add_optimizer(optimizer)

        def build(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            loss = self.model(tokens, targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            return loss

    graph = Step()
    return [graph(layout.batch(w[:, :-1]), layout.batch(w[:, 1:])).item() for w in batches(n_steps)]


@pytest.fixture(scope="module")
def one_rank() -> list[float]:
    return train("single")[0]


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("name", ["data", "tensor"])
def test_losses_equal_those_of_one_rank(one_rank: list[float], name: str, n: int) -> None:
    for losses, _ in torch.testing.run_ranks(n, train, name):
        assert losses == pytest.approx(one_rank, rel=1e-5)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("name", ["data", "tensor"])
def test_traced_losses_equal_those_of_one_rank(one_rank: list[float], name: str, n: int) -> None:
    for losses in torch.testing.run_ranks(n, train_traced, name):
        assert losses == pytest.approx(one_rank, rel=1e-5)


@pytest.mark.parametrize("n", [2, 4])
def test_data_parallel_reduces_each_parameter_once(n: int) -> None:
    for _, facts in torch.testing.run_ranks(n, train, "data", 1):
        assert set(facts) == {"parameters", "held", "all_reduce"}
        assert facts["held"] == facts["parameters"]
        # An all-reduce of T bytes: each rank sends 2 T (n - 1) / n.
        assert facts["all_reduce"] == pytest.approx(2 * 4 * facts["parameters"] * (n - 1) / n, rel=0.01)


@pytest.mark.parametrize("n", [2, 4])
def test_tensor_parallel_reduces_activations_and_gathers_no_weight(n: int) -> None:
    for _, facts in torch.testing.run_ranks(n, train, "tensor", 1):
        assert set(facts) == {"parameters", "held", "all_reduce"}
        w = CONFIG.width
        split = CONFIG.n_layers * (3 * w * w + 3 * w + w * w + 4 * w * w + 4 * w + 4 * w * w)
        assert facts["held"] == facts["parameters"] - split + split // n
        # Megatron's four a layer: two forward, two backward, each of one activation.
        activation = 4 * BATCH * CONFIG.block_size * w
        assert facts["all_reduce"] == 4 * CONFIG.n_layers * 2 * activation * (n - 1) // n


SCRIPT = """
import json, os, sys
sys.path.insert(0, {tests!r})
import test_gpt
losses = [test_gpt.train({name!r})[0], test_gpt.train_traced({name!r})]
with open({out!r} + os.environ["RANK"], "w") as f:
    json.dump(losses, f)
"""


@pytest.mark.parametrize("name", ["data", "tensor"])
def test_two_processes(one_rank: list[float], name: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent), name=name, out=str(tmp_path / "losses")))
    command = [sys.executable, "-m", "oneflow.distributed.launch", "--nproc-per-node", "2", str(script)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    for rank in range(2):
        for losses in json.loads((tmp_path / f"losses{rank}").read_text()):
            assert losses == pytest.approx(one_rank, rel=1e-5)


MESH = """
import sys
sys.path.insert(0, {tests!r})
import test_gpt
for traced in (False, True):
    losses = test_gpt.train_mesh(traced)
    assert losses == test_gpt.pytest.approx({one_rank!r}, rel=1e-5), losses
"""


def test_both_axes_of_a_mesh_of_processes(one_rank: list[float], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(MESH.format(tests=str(Path(__file__).parent), one_rank=one_rank))
    command = [sys.executable, "-m", "oneflow.distributed.launch", "--nproc-per-node", "4", str(script)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr


@pytest.mark.slow
def test_the_script_takes_its_layout_from_an_argument_and_resumes_in_another(tmp_path: Path) -> None:
    """The example's own file, unedited: alone, over two processes, and from one's checkpoint to the other."""

    def run(out: str, *arguments: str, layout: str) -> list[float]:
        launch = [] if layout == "single" else ["-m", "oneflow.distributed.launch", "--nproc-per-node", "2"]
        program = [str(EXAMPLE / "train.py"), "--layout", layout, "--batch-size", "4", "--checkpoint-every", "3"]
        options = ["--sample-bytes", "4", "--held-out-bytes", "2000", "--threads", "1", "--out", str(tmp_path / out)]
        command = [sys.executable, *launch, *program, *options, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return [loss for _, loss in torch.load(tmp_path / out / "checkpoint.pt")["losses"]]

    alone = run("single", "--steps", "5", layout="single")
    for layout in ("data", "tensor"):
        assert run(layout, "--steps", "5", layout=layout) == pytest.approx(alone, rel=1e-5)
        shutil.copytree(tmp_path / "single", tmp_path / f"{layout}-resumed")
    longer = run("single", "--steps", "8", "--resume", layout="single")
    for layout in ("data", "tensor"):
        assert run(f"{layout}-resumed", "--steps", "8", "--resume", layout=layout) == pytest.approx(longer, rel=1e-5)


def train_mesh(traced: bool) -> list[float]:
    """Data parallel over the first mesh axis, tensor parallel over the second."""
    torch.manual_seed(0)
    mesh = torch.placement("cpu", [[0, 1], [2, 3]])
    model = GPT(CONFIG).to_global(mesh, [sbp.broadcast, sbp.broadcast])
    columns, rows = [sbp.broadcast, sbp.split(0)], [sbp.broadcast, sbp.split(1)]
    for block in model.blocks:
        for first, second in ((block.attention.qkv, block.attention.out), (block.mlp[0], block.mlp[2])):
            first.to_global(sbp=columns)
            second.weight = nn.Parameter(second.weight.detach().to_global(sbp=rows))
    # The table split by rows of the vocabulary, over the second axis.
    model.token.to_global(sbp=columns)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)

    def step(tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss = model(tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        return loss

    class Step(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.add_optimizer(optimizer)

        def build(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            return step(tokens, targets)

    graph = Step()
    losses = []
    for windows in batches(6):
        parts = [windows[:, :-1], windows[:, 1:]]
        whole = [x.to_global(mesh, [sbp.broadcast, sbp.broadcast]) for x in parts]
        tokens, targets = (x.to_global(sbp=[sbp.split(0), sbp.broadcast]) for x in whole)
        if traced:
            losses.append(graph(tokens, targets).item())
            continue
        loss = step(tokens, targets)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    for parameter in model.parameters():
        assert not any(s == sbp.partial_sum for s in parameter.sbp)
    return losses


@pytest.mark.parametrize("traced", [False, True])
def test_both_axes_of_a_mesh(one_rank: list[float], traced: bool) -> None:
    for losses in torch.testing.run_ranks(4, train_mesh, traced):
        assert losses == pytest.approx(one_rank, rel=1e-5)
