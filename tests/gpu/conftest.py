"""The tests that need a GPU. Deselected by default; `make test-gpu` runs them and demands one."""

import os
import sys
from pathlib import Path

import oneflow
import pytest

# The op table's samples, shared with the tests on the CPU.
sys.path.insert(0, str(Path(__file__).parents[1] / "ops"))


@pytest.fixture(scope="session", autouse=True)
def gpu():
    """A GPU, or the reason why there is none: a failure where one was promised."""
    reason = oneflow.cuda.unavailable_reason()
    if reason is not None:
        message = f"no GPU: {reason}"
        if os.environ.get("ONEFLOW_REQUIRE_GPU") == "1":
            pytest.fail(message)
        pytest.skip(message)
    return oneflow.device("cuda", 0)
