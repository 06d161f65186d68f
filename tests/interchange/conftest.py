"""Finds the packages of the environment that ``.ci/onnx-venv`` makes; without it these tests are skipped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def pytest_configure():
    base = os.path.join(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    made = subprocess.run(
        [ROOT / ".ci" / "onnx-venv"],
        env=os.environ | ({"PYTHON": base} if os.path.exists(base) else {}),
        capture_output=True,
        text=True,
    )
    if made.returncode == 0:
        # Behind all others: packages that both environments have are this environment's.
        sys.path += map(str, Path(made.stdout.strip()).glob("lib/python3*/site-packages"))


def pytest_ignore_collect(collection_path):
    import importlib.util

    is_test = collection_path.name.startswith("test_") and collection_path.parent == Path(__file__).parent
    if is_test and importlib.util.find_spec("onnxruntime") is None:
        return True
    return None


@pytest.fixture
def session():
    """Runs a model's bytes in ONNX Runtime: session(bytes)(inputs by name) gives a list of arrays."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3

    def open_(model):
        made = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return lambda inputs: made.run(None, inputs)

    return open_
