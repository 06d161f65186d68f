"""Packages written for PyTorch train on oneflow without PyTorch installed, with PyTorch's numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.packages

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("packages.py")
# In double precision the sums' order is all that differs; in single precision a few steps may add to it.
TOLERANCE = {np.dtype("f8"): 1e-8, np.dtype("f4"): 2e-4, "weights": 2e-3}


@pytest.fixture(scope="session")
def environment() -> Path:
    """The environment without PyTorch, created if it is missing."""
    made = subprocess.run(
        [ROOT / ".ci" / "mock-venv"],
        env=os.environ | {"PYTHON": getattr(sys, "_base_executable", sys.executable)},
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    return Path(made.stdout.strip())


def run(python: Path | str, *arguments: object) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ONEFLOW_")}
    variables |= {
        "PYTHONPATH": str(ROOT / "python"),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "CUDA_VISIBLE_DEVICES": "",
    }
    done = subprocess.run([python, PROGRAM, *map(str, arguments)], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


def check(name: str, ours: np.ndarray, theirs: np.ndarray) -> None:
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, name
    if theirs.dtype.kind != "f":
        assert np.array_equal(ours, theirs), name
        return
    tolerance = TOLERANCE[theirs.dtype]
    if theirs.dtype == np.float32 and "|weight " in name:
        tolerance = TOLERANCE["weights"]
    scale = max(1e-3, float(np.abs(theirs).max(initial=0)))
    difference = float(np.abs(ours - theirs).max(initial=0))
    assert difference <= tolerance * scale, f"{name}: {difference} at a scale of {scale}"


GROUPS = (
    "accelerate",
    "captum",
    "detection",
    "diffusers",
    "einops",
    "families",
    "graph_networks",
    "graphs",
    "lightning",
    "lightning_package",
    "safetensors",
    "sentence_transformers",
    "timm",
    "torchmetrics",
    "torchvision",
    "trainer",
    "ultralytics",
    "whisper",
)
GROUPS += (
    "adapters",
    "dictionaries",
    "equations",
    "gaussian_processes",
    "medicine",
    "pictures",
    "probabilities",
    "quantized",
    "sounds",
    "symmetries",
)
GROUPS += ("transformers", "zoo", "more_timm", "more_torchvision", "more_transformers")


@pytest.mark.parametrize("group", GROUPS)
def test_a_package_trains_as_on_pytorch(group, environment, tmp_path):
    packages = next((environment / "lib").glob("python*/site-packages"))
    assert not (packages / "torch").exists()
    run(sys.executable, "theirs", group, tmp_path, packages)
    run(environment / "bin" / "python", "ours", group, tmp_path)
    with np.load(tmp_path / "theirs.npz") as theirs, np.load(tmp_path / "ours.npz") as ours:
        assert sorted(ours) == sorted(theirs)
        for name in theirs:
            check(name, ours[name], theirs[name])


LAUNCHED = """
import sys
import torch
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
total = accelerator.reduce(torch.ones(1) * (accelerator.process_index + 1))
with open(f"rank{accelerator.process_index}", "w") as file:
    print(type(total).__module__, accelerator.num_processes, total.item(), sys.argv[1:], file=file)
"""
LAUNCHERS = {
    "accelerate launch": "-m accelerate.commands.launch --multi_gpu --num_machines 1 --mixed_precision no "
    "--dynamo_backend no --main_process_port 0 --num_processes 2",
    "torchrun": "-m torch.distributed.run --standalone --nproc-per-node 2",
}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_launchers_of_programs(launcher, environment, tmp_path):
    (tmp_path / "train.py").write_text(LAUNCHED)
    command = [environment / "bin" / "python", *LAUNCHERS[launcher].split(), "train.py", "--lr", "0.1"]
    path = os.pathsep.join([str(ROOT / "python" / "oneflow" / "mock_torch" / "shell"), str(ROOT / "python")])
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ONEFLOW_")}
    variables |= {"PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    for rank in range(2):
        assert (tmp_path / f"rank{rank}").read_text().split(maxsplit=3) == ["oneflow", "2", "3.0", "['--lr', '0.1']\n"]
