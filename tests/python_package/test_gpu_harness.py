"""`make test-gpu` and `make bench-gpu` end with a table and a file, also when the driver fails in the middle."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.cxx


def _run(module, folder, *arguments, **env):
    out = folder / "result.json"
    done = subprocess.run(
        [sys.executable, "-m", module, "--emulated", "--json", str(out), *arguments],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'tests'}", **env},
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert out.is_file(), done.stderr
    return done.returncode, json.loads(out.read_text()), done.stdout


def test_a_fault_costs_the_case_that_met_it(tmp_path):
    """After a number of launches, the driver refuses everything, in each process separately."""
    few = ("--families", "device", "--timeout", "60", "--skip-smoke", "-k", "there_is or copies or host")
    code, run, text = _run("suites.gpu", tmp_path, *few, EMULATOR_FAILS_AFTER="2")
    entry = run["families"]["device"]
    assert code == 1 and entry["n_passed"] > 0 and entry["n_passed"] + len(entry["failures"]) == entry["n"] > 2
    assert entry["n_restarts"] == len(entry["failures"]) > 0
    assert all("ILLEGAL_ADDRESS" in failure["message"] for failure in entry["failures"].values()), entry
    assert "device" in text and len(text.splitlines()) < 40


@pytest.mark.parametrize(
    ("seed", "families"),
    [
        (1, "streams,memory,graphs,compiled,linalg,cudnn,attention_cudnn,gradients,device,nccl"),
        (2, "streams,memory,graphs"),
    ],
)
def test_families_on_the_emulated_device(seed, families, tmp_path):
    """It has two GPUs and does the work of streams late, in an order that the seed chooses."""
    few = ("--families", families, "--skip-smoke", "--jobs", "2")
    code, run, text = _run("suites.gpu", tmp_path, *few, EMULATOR_SEED=str(seed))
    sizes = {name: entry["n"] for name, entry in run["families"].items()}
    asked_for = {name.removeprefix("ops: ") for name in sizes}
    assert code == 0 and asked_for == set(families.split(",")), text + json.dumps(run["families"], indent=1)
    assert all(n > 5 for n in sizes.values()), sizes


def test_a_dead_device_ends_at_the_smoke_step(tmp_path):
    code, run, text = _run("suites.gpu", tmp_path, EMULATOR_FAILS_AFTER="0")
    assert code == 1 and not run["smoke"]["passed"] and not run["families"]
    assert "smoke step failed" in text


def test_a_bench_outlives_rows_that_fail(tmp_path):
    code, run, text = _run("benches.gpu", tmp_path, "backward", EMULATOR_FAILS_AFTER="60")
    assert len(run["rows"]) == 3 and all("ILLEGAL_ADDRESS" in row["error"] for row in run["rows"]) and "failed" in text
    assert run["sections"]["backward"]["n_starts"] == 4
    code, run, text = _run("benches.gpu", tmp_path, "train", "--limit", "0.5")
    assert code == 1 and "stopped after" in run["sections"]["train"]["ending"]


def test_rates_are_shares_of_the_ceilings_of_the_run(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    shares = importlib.import_module("benches.roofline").shares
    copy = {"name": "ceiling: copy", "ours": 2e-3, "reference": 1e-3, "ratio": 2.0, "bytes": 4e9}
    add = {"name": "add", "ours": 2e-3, "reference": 4e-3, "ratio": 0.5, "bytes": 2e9}
    lines = shares([copy, add, {"name": "other", "ours": 1.0, "reference": 1.0, "ratio": 1.0}])
    # The ceiling is the better of both packages' copies: 4,000 GB/s.
    assert lines[1].split() == ["ceiling:", "copy", "2000.000", "GB/s", "50%", "100%", "2.000"]
    assert lines[2].split() == ["add", "1000.000", "GB/s", "25%", "12%", "0.500"] and len(lines) == 3
    code, run, text = _run("benches.gpu", tmp_path, "roofline", "--only", "ceiling", "--seconds", "0.1")
    assert code == 0 and [row["name"] for row in run["rows"]] == ["ceiling: copy", "ceiling: bfloat16 product"], text
    assert run["rows"][0]["bytes"] == 4 << 14 and "GB/s" in text and "TFLOP/s" in text


@pytest.mark.parametrize("section", ["products", "conv", "pool"])
def test_a_bench_makes_its_tensors_on_its_device(section, monkeypatch):
    """PyTorch's meta device refuses what is elsewhere."""
    monkeypatch.syspath_prepend(str(ROOT))
    torch, cases = pytest.importorskip("torch"), importlib.import_module("benches.cases")
    for name, run in cases.SECTIONS[section](torch, "meta"):
        if "max_pool" not in name:
            run()
