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
