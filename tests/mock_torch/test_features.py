"""Feature extraction of torchvision on models of torchvision and timm: PyTorch's names of nodes, and its features."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.packages

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("features.py")


@pytest.fixture(scope="module")
def environment() -> Path:
    """The environment without PyTorch, created if it is missing."""
    base = getattr(sys, "_base_executable", sys.executable)
    done = subprocess.run(
        [ROOT / ".ci" / "mock-venv"], env=os.environ | {"PYTHON": base}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def run(python: Path | str, *arguments: object) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ONEFLOW_")}
    variables |= {"PYTHONPATH": str(ROOT / "python"), "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([python, PROGRAM, *map(str, arguments)], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("which", ["few", pytest.param("all", marks=[pytest.mark.slow, pytest.mark.timeout(3000)])])
def test_names_and_features_are_pytorchs(which, environment, tmp_path):
    packages = next((environment / "lib").glob("python*/site-packages"))
    run(sys.executable, "theirs", which, tmp_path, packages)
    run(environment / "bin" / "python", "ours", which, tmp_path)
    theirs, ours = (json.loads((tmp_path / f"{who}.json").read_text()) for who in ("theirs", "ours"))
    traced = [name for name, found in theirs.items() if not isinstance(found, str)]
    same = [name for name in traced if ours[name] == theirs[name]]
    print(f"traced by PyTorch: {len(traced)} of {len(theirs)}; the same nodes: {len(same)}")
    assert [name for name in traced if name not in same] == []
    assert len(traced) >= 12
    expected, got = (np.load(tmp_path / f"{who}.npz") for who in ("theirs", "ours"))
    assert which == "all" or len(expected.files) >= 60
    for key in expected.files:
        scale = max(1e-3, float(np.abs(expected[key]).max(initial=0)))
        assert np.abs(got[key] - expected[key]).max(initial=0) <= 2e-4 * scale, key
