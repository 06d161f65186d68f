"""Ranks as actors of a real Ray cluster: one loss curve, a node that is lost in the middle, failures by name."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from clusters.test_launchers import alone, is_that  # noqa: F401
from distributed.processes import environment

pytestmark = pytest.mark.skipif(
    os.environ.get("ONEFLOW_TEST_CLUSTERS") != "1",
    reason="an environment with Ray: make test-clusters",
)

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def python() -> str:
    made = [ROOT / ".ci" / "venv", HERE / "requirements.txt"]
    done = subprocess.run(made, capture_output=True, text=True, check=True, timeout=600)
    return str(Path(done.stdout.strip(), "bin", "python"))


def job(python: str, *arguments: str) -> Any:
    own = {"PYTHONPATH": f"{ROOT / 'python'}:{HERE}", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [python, str(HERE / "ray_jobs.py"), *arguments]
    done = subprocess.run(command, env=environment(**own), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    # The nodes of a cluster may print behind it.
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith(("[", "{"))))


@pytest.mark.parametrize(("n", "mode"), [("2", "ddp"), ("4", "fsdp"), ("2", "tensor")])
def test_one_loss_curve(python: str, n: str, mode: str, alone: list[float]) -> None:  # noqa: F811
    is_that(job(python, "train", n, mode), alone)


def test_a_lost_node_costs_the_steps_since_the_checkpoint(python: str, tmp_path: Path) -> None:
    found = job(python, "lost", str(tmp_path))
    whole, again = found["whole"], found["again"]
    assert [r["start"] for r in whole] == [0, 0] and [r["start"] for r in again] == [1, 1]
    assert len({r["node"] for r in whole}) == len({r["node"] for r in again}) == 2
    assert [r["first"] for r in again] == [4, 4]
    for before, after in zip(whole, again, strict=True):
        # Bit for bit, as if nothing had happened.
        assert after["losses"] == before["losses"][4:]


def test_failures_name_the_rank_and_leave_nothing(python: str) -> None:
    found = job(python, "faults")
    assert found["raises"] == "RuntimeError: ray.run: rank 1 failed: ValueError: rank 1 does not like it"
    assert found["dies"].startswith("RuntimeError: ray.run: rank 1 was lost: The actor died")
    assert found["no room"].startswith("TimeoutError: ray.run: the cluster had no room for 3 ranks of {'CPU': 1}")
    assert found["none"].startswith("ValueError: ray.run: num_workers=0 must be positive")
    assert found["after"] == "[0, 1]"
