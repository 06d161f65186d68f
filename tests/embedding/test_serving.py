"""Tables served in Rust: a program and its rows answer as in Python, and follow deltas that the command line writes."""

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import oneflow
import pytest
from embedding.stores import DIM, make
from oneflow import nn
from oneflow import one_embedding as oe
from oneflow.one_embedding.__main__ import main

pytestmark = pytest.mark.cargo

ROOT = Path(__file__).parents[2]
TABLES = [oe.make_table(oe.make_uniform_initializer(-0.5, 0.5)), oe.make_table(oe.make_normal_initializer(0, 0.1))]


class Scoring(nn.Graph):
    def __init__(self, head):
        super().__init__()
        self.head = head

    def build(self, rows):
        return self.head(rows.flatten(1))


@pytest.fixture(scope="module")
def binary():
    subprocess.run(["cargo", "build", "--quiet", "--workspace", "--bin", "rust_service"], cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "rust_service"


def ask(url, ids):
    body = json.dumps({"inputs": {"rows": ids}}).encode()
    with urllib.request.urlopen(urllib.request.Request(url + "/run", body), timeout=60) as answer:
        return json.load(answer)["outputs"][0]


def test_scores_are_those_of_python_and_follow_deltas(tmp_path, binary):
    embedding = make(tmp_path / "rows", tables=TABLES, size_factor=3)
    head = nn.Linear(2 * DIM, 3)
    optimizer = oe.Optimizer(oneflow.optim.Adam(embedding.parameters(), lr=0.1), [embedding])
    rng = np.random.default_rng(0)

    def step():
        ids = oneflow.from_numpy(rng.integers(0, 40, (64, 2)))
        (head(embedding(ids).flatten(1)) ** 2).sum().backward()
        optimizer.step()

    asked = [[7, 9], [-1, 2**40], [0, 39]]

    def scores():
        with oneflow.no_grad():
            return head(embedding(oneflow.tensor(asked)).flatten(1)).numpy()

    step()
    embedding.save_snapshot("monday")
    scoring = Scoring(head)
    scoring(oneflow.zeros(4, 2, DIM))
    oneflow.save(scoring, tmp_path / "program")
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    folder = tmp_path / "rows" / "0-1"
    child = subprocess.Popen(
        [
            binary,
            tmp_path / "program",
            "127.0.0.1:0",
            "--table",
            f"rows={folder}@monday",
            "--deltas",
            f"rows={incoming}",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        url = child.stderr.readline().split()[-1]
        np.testing.assert_allclose([ask(url, ids) for ids in asked], scores(), rtol=1e-5, atol=1e-6)
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(url, [1])
        # Rows change, and one goes: a delta says so.
        step()
        embedding.remove(oneflow.tensor([[7, 9]]))
        embedding.save_snapshot("tuesday")
        (incoming / "broken.safetensors").write_bytes(b"nothing")
        written = tmp_path / "tuesday.safetensors"
        assert main(["delta", str(folder), str(written), "--since", "monday", "--snapshot", "tuesday"]) == 0
        written.rename(incoming / "tuesday.safetensors")
        want, end = scores(), time.monotonic() + 30
        while time.monotonic() < end and not np.allclose([ask(url, ids) for ids in asked], want, rtol=1e-5, atol=1e-6):
            time.sleep(0.1)
        np.testing.assert_allclose([ask(url, ids) for ids in asked], want, rtol=1e-5, atol=1e-6)
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=60) == 0
        told = child.stderr.read()
        assert "took over" in told and "left" in told and "broken" in told
    finally:
        child.kill()
        child.communicate()
