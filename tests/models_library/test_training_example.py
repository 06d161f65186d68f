"""The training script: after a few steps models beat a baseline without a network, eager and compiled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from oneflow import models

SCRIPT = Path(__file__).parents[2] / "examples" / "models" / "train.py"

RUNS = [
    ["wide_deep", "--steps", "40"],
    ["dlrm", "--steps", "40", "--graph"],
    ["unet", "--steps", "40", "--graph"],
    ["diffusion", "--steps", "20", "--bf16"],
    ["resnet", "--steps", "80", "--graph"],
]


@pytest.mark.parametrize("arguments", RUNS, ids=" ".join)
def test_a_few_steps_are_enough(arguments: list[str], tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), *arguments, "--save", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "held-out" in done.stdout and "[====" in done.stderr
    if arguments[0] == "resnet":
        assert models.ResNet.from_pretrained(tmp_path).config.n_classes == 10


@pytest.mark.slow
@pytest.mark.timeout(1300)
@pytest.mark.parametrize("name", ["gpt2", "llama", "lstm", "bert", "t5", "vit", "swin"])
def test_the_defaults_are_enough(name: str) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), name, "--graph"], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
