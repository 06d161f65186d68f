"""Collectives between GPUs, by NCCL or on the emulated device by its own: two processes, each with a GPU of its own."""

import os
import subprocess
import sys
from pathlib import Path

import oneflow
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "distributed"))
from processes import environment, free_port, torchrun

pytestmark = pytest.mark.gpu
PROGRAMS, STEPS = (Path(__file__).with_name(name) for name in ("nccl_programs.py", "nccl_steps.py"))


def is_emulated(gpu):
    return oneflow.cuda.get_device_name(gpu) == "emulated device"


def run(name, n=2, seconds=100, programs=PROGRAMS, **own):
    """What each rank wrote, and its errors; all end by themselves."""
    port = free_port()
    kept = {key: value for key, value in os.environ.items() if key.startswith(("ONEFLOW_CU", "ONEFLOW_REQUIRE"))}
    pipe = subprocess.PIPE
    ranks = [
        subprocess.Popen(
            [sys.executable, str(programs), name],
            env=environment(**{**kept, **(torchrun(rank, n, port) if n > 1 else {}), **own}),
            stdout=pipe,
            stderr=pipe,
            text=True,
        )
        for rank in range(n)
    ]
    try:
        return [process.communicate(timeout=seconds) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
            process.wait()


@pytest.fixture
def two_gpus(gpu):
    if oneflow.cuda.device_count() < 2:
        pytest.skip("one GPU")
    if not oneflow.distributed.is_nccl_available():
        pytest.fail(f"no NCCL: {oneflow._oneflow._nccl_unavailable_reason()}")
    return gpu


def all_well(ended):
    assert [out for out, _ in ended] == ["well\n"] * len(ended), "\n".join(err for _, err in ended)


@pytest.mark.parametrize("name", ["collectives", "streams", "ddp", "fsdp", "global_tensors", "captures", "by_hand"])
def test_ranks_on_gpus_agree_with_the_cpu(name, two_gpus):
    all_well(run(name))


@pytest.mark.parametrize("name", ["recorded", "beside", "placements", "declined", "moved", "late"])
def test_ranks_record_collectives_together(name, two_gpus):
    all_well(run(name, programs=STEPS))


def test_a_rank_that_cannot_record_keeps_the_others_from_it(two_gpus):
    if not is_emulated(two_gpus):
        pytest.skip("only the emulated driver can refuse captures")
    all_well(run("refused", programs=STEPS))


@pytest.mark.parametrize("name", ["late", "late_launch", "one_gpu"])
def test_failures_say_what_they_met(name, two_gpus):
    all_well(run(name))


@pytest.mark.parametrize("name", ["killed", "killed_before_launch"])
def test_a_rank_that_dies_is_named(name, two_gpus):
    all_well(run(name)[:1])


def test_a_rank_that_dies_before_a_recorded_step_is_named(two_gpus):
    all_well(run("killed", programs=STEPS)[:1])


@pytest.mark.parametrize(("name", "own"), [("out_of_step", {}), ("planted", {"EMULATOR_NCCL_FAILS_AFTER": "5"})])
def test_errors_of_the_library_name_the_operation(name, own, two_gpus):
    if not is_emulated(two_gpus):
        pytest.skip("the real library hangs")
    all_well(run(name, **own))


def test_a_library_that_is_missing_or_old_is_named(gpu, tmp_path):
    if not is_emulated(gpu):
        pytest.skip("for libraries that the emulator brings")
    folder = Path(os.environ["ONEFLOW_CUDA_LIB_DIRS"].split(os.pathsep)[0])
    for path in folder.glob("lib*.so.*"):
        if "nccl" not in path.name:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    old = {"EMULATOR_NCCL_VERSION": "21703", "EXPECTED": "NCCL 2.17.3 is too old, at least 2.18 is needed"}
    folders = dict.fromkeys(("ONEFLOW_CUDA_LIB_DIRS", "LD_LIBRARY_PATH"), str(tmp_path))
    none = {**folders, "WITHOUT_PACKAGES": "1", "EXPECTED": "libnccl was not found"}
    for own in (old, none):
        all_well(run("refused", n=1, **own))
