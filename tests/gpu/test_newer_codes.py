"""Codes that no library of today answers: each is an error that has its number, and the process goes on."""

import os
import sys
from pathlib import Path

import oneflow
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_nccl import free_port, is_emulated, torchrun
from test_nccl import run as run_ranks

pytestmark = pytest.mark.gpu
CODE = "4711"


@pytest.fixture
def answer(gpu, monkeypatch):
    """What a call of the driver or of a library answers from now on."""
    if not is_emulated(gpu):
        pytest.skip("only the emulated libraries answer what a test says")

    def answers(call):
        monkeypatch.setitem(os.environ, "EMULATOR_ANSWER", f"{call}={CODE}")

    yield answers
    oneflow.cuda.synchronize()


def capture(x):
    graph = oneflow.cuda.CUDAGraph()
    with oneflow.cuda.graph(graph):
        x + 1


def event(x):
    x + 1
    event = oneflow.cuda.Event()
    event.record()
    return event


# What makes the call. Each is made once before, so that kernels and plans are there.
CALLS = {
    "cuLaunchKernel": lambda x: x + 1,
    "cuMemAlloc": lambda x: oneflow.empty(30 << 20, device=x.device),
    "cuMemHostAlloc": lambda x: oneflow.empty(30 << 20, pin_memory=True),
    "cuMemcpyHtoD": lambda x: oneflow.ones(4, 4).to(x.device),
    "cuMemcpyDtoH": lambda x: x.tolist(),
    "cuModuleLoadData": lambda x: oneflow.erfinv(x.double()),
    "cuStreamCreate": lambda x: oneflow.cuda.Stream(),
    "cuStreamSynchronize": lambda x: oneflow.cuda.current_stream().synchronize(),
    "cuStreamBeginCapture": capture,
    "cuEventRecord": lambda x: oneflow.cuda.Event().record(),
    "cuEventQuery": lambda x: event(x).query(),
    "cuStreamWaitEvent": lambda x: oneflow.cuda.Stream().wait_event(event(x)),
    "cublasLtMatmul": lambda x: x @ x,
    "cufftXtExec": oneflow.fft.fft,
    "cusolverDnXpotrf": lambda x: oneflow.linalg.cholesky(oneflow.eye(4, device=x.device)),
    "cudnnBackendExecute": lambda x: oneflow.nn.functional.conv2d(x[None, None], x[None, None, :2, :2]),
}
# Made for the first time while the call answers: afterwards nothing loads or asks for memory.
FIRST = {"cuModuleLoadData", "cuMemAlloc", "cuMemHostAlloc"}


@pytest.mark.parametrize("call", CALLS)
def test_a_code_that_nobody_knows_is_an_error(call, gpu, answer, monkeypatch):
    x, use = oneflow.ones(4, 4, device=gpu), CALLS[call]
    oneflow.cuda.synchronize()
    if call in FIRST:
        oneflow.cuda.empty_cache()
    else:
        use(x)
    answer(call)
    with pytest.raises(RuntimeError, match=CODE):
        use(x)
    monkeypatch.delitem(os.environ, "EMULATOR_ANSWER")
    use(x)
    assert (x + 1).sum().item() == 32


def test_a_state_of_captures_that_nobody_knows_is_none(gpu, answer):
    """A stream whose state is unknown is not captured: work goes on."""
    x = oneflow.ones(4, device=gpu)
    answer("cuStreamGetCaptureInfo")
    assert (x + 1).tolist() == [2.0] * 4


NCCL = """
import os, sys
import oneflow as flow
import oneflow.distributed as dist
dist.init_process_group("cpu:gloo,cuda:nccl")
flow.cuda.set_device(0)
x = flow.ones(4, device="cuda")
dist.all_reduce(x)
x.tolist()
os.environ["EMULATOR_ANSWER"] = sys.argv[1]
try:
    dist.all_reduce(x)
    flow.cuda.synchronize()
    dist.all_reduce(x).tolist()
except RuntimeError as error:
    print("well" if "4711" in str(error) else error)
os._exit(0)
"""


@pytest.mark.parametrize("call", ["ncclAllReduce"])
def test_codes_of_nccl(call, gpu, tmp_path):
    if not is_emulated(gpu):
        pytest.skip("only the emulated libraries answer what a test says")
    program = tmp_path / "program.py"
    program.write_text(NCCL)
    (done,) = run_ranks(f"{call}={CODE}", n=1, programs=program, **torchrun(0, 1, free_port()))
    assert done[0] == "well\n", done
