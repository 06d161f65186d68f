"""Saving to a full disk: an exception, and the previous file is unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SETUP = """
import pathlib, resource, signal
import oneflow
from oneflow import models, nn

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

class Product(nn.Graph):
    def __init__(self, value):
        super().__init__()
        self.layer = nn.Linear(300, 300, bias=False)
        nn.init.constant_(self.layer.weight, value)

    def build(self, x):
        return self.layer(x)

def program(value):
    graph = Product(value)
    graph(oneflow.ones(1, 300))
    return graph

def lstm(value):
    model = models.LSTMLM(models.LSTMLMConfig(vocabulary=300, width=40, hidden=40))
    nn.init.constant_(model.token.weight, value)
    return model
"""
# How each is saved to "saved", and how the number in it is read back.
SAVERS = {
    "state": (
        'oneflow.save({"w": oneflow.full((300, 300), value)}, "saved")',
        'oneflow.load("saved")["w"]',
    ),
    "safetensors": (
        'models.safetensors.save_file({"w": oneflow.full((300, 300), value)}, "saved")',
        'models.safetensors.load_file("saved")["w"]',
    ),
    "model": ('lstm(value).save_pretrained("saved")', 'models.LSTMLM.from_pretrained("saved").token.weight'),
    "program": ('oneflow.save(program(value), "saved")', 'oneflow.load("saved")(oneflow.ones(1, 300)) / 300'),
}


@pytest.mark.parametrize("kind", SAVERS)
def test_a_full_disk_leaves_what_was_saved(kind, tmp_path):
    save, read = SAVERS[kind]
    program = SETUP + textwrap.dedent(f"""
        def save(value):
            {save}

        save(1.0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
        try:
            save(2.0)
        except (OSError, RuntimeError) as error:
            print(type(error).__name__, error)
        else:
            raise SystemExit("the second save went through")
        assert list(pathlib.Path().rglob("*.part*")) == []
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert bool(({read} == 1).all())
        save(3.0)
        assert bool(({read} == 3).all())
    """)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "python")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "File too large" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
