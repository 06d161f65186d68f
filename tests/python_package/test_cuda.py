"""oneflow.cuda without a GPU: it reports the reason, and nothing crashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import oneflow
import pytest
from oneflow._base.cuda_libraries import search_directories

needs_no_gpu = pytest.mark.skipif(oneflow.cuda.is_available(), reason="there is a GPU")


@needs_no_gpu
def test_reason_names_what_was_tried():
    assert not oneflow.cuda.is_available() and oneflow.cuda.device_count() == 0
    assert "libcuda.so" in oneflow.cuda.unavailable_reason() or "driver" in oneflow.cuda.unavailable_reason()


@needs_no_gpu
@pytest.mark.parametrize(
    "use",
    [
        lambda: oneflow.ones(2).cuda(),
        lambda: oneflow.ones(2).to("cuda"),
        lambda: oneflow.ones(2).to("cuda:1"),
        lambda: oneflow.zeros(2, device="cuda"),
        lambda: oneflow.tensor([1.0], device=oneflow.device("cuda", 0)),
        lambda: oneflow.nn.Linear(2, 2).cuda(),
        lambda: oneflow.nn.Linear(2, 2, device="cuda"),
        oneflow.cuda.current_device,
        oneflow.cuda.synchronize,
        oneflow.cuda.Stream,
        oneflow.cuda.current_stream,
        oneflow.cuda.get_device_name,
        oneflow.cuda.get_device_properties,
        lambda: oneflow.cuda.set_device(0),
        lambda: oneflow.cuda.set_device("cuda:1"),
    ],
)
def test_using_a_gpu_is_an_error_with_the_reason(use):
    with pytest.raises(RuntimeError, match=r"CUDA is not available: .+"):
        use()


@needs_no_gpu
def test_queries_work_without_a_gpu():
    assert oneflow.cuda.memory_allocated() == oneflow.cuda.max_memory_allocated() == oneflow.cuda.memory_reserved() == 0
    oneflow.cuda.empty_cache()
    with oneflow.cuda.stream(None):
        pass


def test_wrong_arguments():
    with pytest.raises(ValueError, match="Expected a cuda device"):
        oneflow.cuda.synchronize("cpu")
    with pytest.raises(NotImplementedError, match="between processes"):
        oneflow.cuda.Event(interprocess=True)
    timed = oneflow.cuda.Event(enable_timing=True)
    with pytest.raises(ValueError, match="enable_timing=True"):
        timed.elapsed_time(oneflow.cuda.Event())
    with pytest.raises(RuntimeError, match="must be recorded"):
        timed.elapsed_time(oneflow.cuda.Event(enable_timing=True))


def test_manual_seed_is_the_one_seed():
    oneflow.cuda.manual_seed_all(3)
    a = oneflow.rand(4)
    oneflow.manual_seed(3)
    assert (a == oneflow.rand(4)).all()


def test_library_directories(tmp_path, monkeypatch):
    for package in ("cublas", "cu13"):
        (tmp_path / "site" / "nvidia" / package / "lib").mkdir(parents=True)
    (tmp_path / "home" / "lib64").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "empty"), str(tmp_path / "site")])
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    found = [Path(d).relative_to(tmp_path).as_posix() for d in search_directories()]
    assert found == ["site/nvidia/cu13/lib", "site/nvidia/cublas/lib", "home/lib64"]


def test_a_broken_driver_is_a_reason(tmp_path):
    """A file that is no library in the driver's place."""
    (tmp_path / "libcuda.so.1").write_text("not a library")
    code = "import oneflow; print(oneflow.cuda.is_available(), oneflow.cuda.unavailable_reason())"
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    if not oneflow.cuda.is_available():
        assert done.stdout.startswith("False ")


def test_kernels_are_compiled_ahead_for_other_gpus(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEFLOW_CUBIN_CACHE", str(tmp_path))
    source = 'extern "C" __global__ void entry(float* x) {\n    x[threadIdx.x] *= 2.0f;\n}\n'
    try:
        oneflow._oneflow._cuda_compile("twice", source, ["--fmad=false", "--restrict"], "sm_80")
    except RuntimeError as error:
        if "libnvrtc was not found" in str(error):
            pytest.skip("no run-time compiler")
        raise
    (text,) = tmp_path.glob("*.text")
    assert text.read_text() == f"twice\n--fmad=false --restrict\n{source}"
    assert oneflow.cuda.precompile(("sm_80", "sm_90a")) == 2
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.cubin")}
    assert len(written) == 2 and len({path.read_bytes() for path in written}) == 2
    assert oneflow.cuda.precompile(("sm_80", "sm_90a")) == 2
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.cubin")} == written
    with pytest.raises(RuntimeError, match="sm_1"):
        oneflow.cuda.precompile(["sm_1"])
    monkeypatch.setenv("ONEFLOW_CUBIN_CACHE", "0")
    with pytest.raises(RuntimeError, match="no cache to compile into"):
        oneflow.cuda.precompile(["sm_80"])
