"""The lines of the guide that put a saved program into a crate of one's own, in a crate outside this workspace."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import oneflow
import pytest

pytestmark = pytest.mark.cargo

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "saving.md"


def _blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)


@pytest.fixture
def crate(tmp_path):
    """A package with the guide's dependency, whose checkout is this tree, and with the guide's two programs."""
    (line,) = [block for block in _blocks("toml") if "oneflow-runtime" in block]
    told = re.search(r'path = "([^"]+)"', line)[1]
    assert told.endswith("/crates/runtime")
    manifest = '[package]\nname = "outside"\nversion = "0.0.0"\nedition = "2024"\n\n[workspace]\n\n'
    (tmp_path / "Cargo.toml").write_text(manifest + line.replace(told, str(ROOT / "crates/runtime")))
    # The versions of further crates that this tree was tested with, which are on this machine.
    shutil.copy(ROOT / "Cargo.lock", tmp_path)
    programs = tmp_path / "src" / "bin"
    programs.mkdir(parents=True)
    by_place, by_name = [block for block in _blocks("rust") if "fn main" in block]
    (programs / "by_place.rs").write_text(by_place)
    (programs / "by_name.rs").write_text(by_name)
    return tmp_path


def _cargo(crate, *arguments):
    # Kept next to the workspace's own objects, for the next run.
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "outside"
    env = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    done = subprocess.run(
        ["cargo", *arguments, "--quiet", "--offline"], cwd=crate, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_line_of_the_guide_is_enough(crate):
    """Cargo finds the crate, its version and all it needs; what it needs is no part of a Python package."""
    needed = _cargo(crate, "tree", "--edges", "normal", "--prefix", "none")
    assert f"oneflow-runtime v{oneflow.__version__}" in needed
    assert "pyo3" not in needed and "oneflow-graph" not in needed


@pytest.mark.slow
def test_a_crate_outside_the_workspace_runs_a_program(crate):
    class Predict(oneflow.nn.Graph):
        def __init__(self):
            super().__init__()
            self.model = oneflow.nn.Linear(4, 2)

        def build(self, x):
            return self.model(x).softmax(-1)

    predict = Predict()
    x = oneflow.tensor([[0.1, 0.2, 0.3, 0.4]])
    expected = predict(x)[0].tolist()
    oneflow.save(predict, crate / "predict")
    printed = re.findall(r"\d\.\d+", _cargo(crate, "run", "--bin", "by_place"))
    assert [float(number) for number in printed] == pytest.approx(expected, abs=1e-5)
    assert '"x"' in _cargo(crate, "run", "--bin", "by_name")
