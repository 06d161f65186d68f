"""The tests that need a GPU. Deselected by default; `make test-gpu` runs them and demands one."""

import ctypes
import os
import subprocess
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


@pytest.fixture(autouse=True)
def exact_float32():
    """Results are compared to all digits of float32, where programs allow convolutions fewer by default."""
    assert oneflow.backends.cudnn.allow_tf32
    oneflow.backends.cudnn.allow_tf32 = False
    yield
    oneflow.backends.cudnn.allow_tf32 = True


def need_emulated(gpu, why):
    if oneflow.cuda.get_device_name(gpu) != "emulated device":
        pytest.skip(why)


@pytest.fixture
def launches(gpu):
    """Launches of what is called: a function of the emulated driver counts them."""
    need_emulated(gpu, "only the emulated driver counts launches")
    count = ctypes.CDLL("libcuda.so.1").emulator_launches
    count.restype = ctypes.c_long

    def of(run):
        before = count()
        run()
        return count() - before

    return of


@pytest.fixture
def issued(gpu):
    """Names of the work that a call issues: a function of the emulated driver tells them."""
    need_emulated(gpu, "only the emulated driver tells what was issued")
    tell = ctypes.CDLL("libcuda.so.1").emulator_issued
    tell.restype = ctypes.c_long
    room = ctypes.create_string_buffer(1 << 16)

    def told():
        parts = []
        while n := tell(room, len(room)):
            parts.append(room.raw[:n])
        return b"".join(parts).decode().splitlines()

    def of(run):
        told()
        run()
        return told()

    return of


@pytest.fixture
def in_copied_libraries(gpu, tmp_path):
    """Run a program with copies of the emulator's libraries, which a test may change; it must print "well"."""
    need_emulated(gpu, "for libraries that the emulator brings")
    folder = Path(os.environ["ONEFLOW_CUDA_LIB_DIRS"].split(os.pathsep)[0])
    for path in folder.glob("lib*.so.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())

    def run(program, *arguments, **own):
        environment = {**os.environ, "ONEFLOW_CUDA_LIB_DIRS": str(tmp_path), "LD_LIBRARY_PATH": str(tmp_path), **own}
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True
        )
        assert done.stdout == "well\n", done.stderr

    return run
