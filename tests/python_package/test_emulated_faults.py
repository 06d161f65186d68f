"""The emulated device refuses what a card would: accesses that are not aligned, more threads than a kernel was compiled
for, and code, streams and memory of different devices. Each is planted beside its right form."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.cxx
INVALID_HANDLE, ILLEGAL_ADDRESS, OUT_OF_RESOURCES, MISALIGNED = 400, 700, 701, 716

# Calls the driver and the compiler as the provider does. A launch that fails breaks its device, until it is as new.
DRIVER = '''
import ctypes, os, sys
os.environ["EMULATOR_DEVICES"] = "2"
folder, prelude = sys.argv[1:]
driver = ctypes.CDLL(f"{folder}/libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
compiler = ctypes.CDLL(f"{folder}/libnvrtc.so.13")
HEAD = "#define MAX_DIMS 4\\n" + open(prelude).read() + """
struct alignas(8) Two { f32 v[2]; };
struct alignas(16) Four { f32 v[4]; };
struct Table { i64 n; f32* of[2]; };
"""

class Table(ctypes.Structure):
    _fields_ = [("n", ctypes.c_int64), ("of", ctypes.c_uint64 * 2)]

def code(body, bounds="", parameter="f32* x"):
    text = f'{HEAD}extern "C" __global__ void {bounds} entry({parameter}, i64 at) {{\\n{body}\\n}}\\n'
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    compiler.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"planted", 0, None, None)
    assert compiler.nvrtcCompileProgram(program, 0, None) == 0
    compiler.nvrtcGetCUBINSize(program, ctypes.byref(size))
    image = ctypes.create_string_buffer(size.value)
    compiler.nvrtcGetCUBIN(program, image)
    return image

class Device:
    def __init__(self, index):
        self.context, self.stream, self.memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), index)
        driver.cuCtxSetCurrent(self.context)
        assert driver.cuStreamCreate(ctypes.byref(self.stream), 1) == 0
        assert driver.cuMemAlloc_v2(ctypes.byref(self.memory), 4096) == 0

    def kernel(self, image):
        driver.cuCtxSetCurrent(self.context)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        assert driver.cuModuleLoadData(ctypes.byref(module), image) == 0
        assert driver.cuModuleGetFunction(ctypes.byref(function), module, b"entry") == 0
        return function

    def launch(self, function, x, at=0, threads=32):
        driver.emulator_reseed(ctypes.c_long(1))
        driver.cuCtxSetCurrent(self.context)
        arguments = (x, ctypes.c_int64(at))
        places = (ctypes.c_void_p * 2)(*(ctypes.addressof(a) for a in arguments))
        refused = driver.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, self.stream, places, None)
        return refused or driver.cuStreamSynchronize(self.stream)

first, second = Device(0), Device(1)
'''

ALIGNED = """
for name, n in (("Two", 2), ("Four", 4)):
    for body in (
        f"*({name}*)(x + at) = {name}{{}};",
        f"const {name} v = *({name}*)(x + at); x[512] = v.v[0];",
        # Threads as fibers.
        f"__syncthreads(); *({name}*)(x + at) = {name}{{}}; __syncthreads();",
    ):
        kernel = first.kernel(code(body))
        print([first.launch(kernel, first.memory, at) for at in (0, n, 5 * n, 1, n + 1, n - 1)])
"""

BOUNDS = """
for bounds, most in (("", 256), ("__launch_bounds__(1024)", 1024), ("__launch_bounds__(64 < 96 ? 96 : 64, 2)", 96)):
    kernel = first.kernel(code("x[at] = 1.0f;", bounds))
    print([first.launch(kernel, first.memory, 3, threads) for threads in (most, min(most + 32, 1024))])
"""

DEVICES = """
plain, table = code("x[at] = 1.0f;"), code("t.of[1][at] = 1.0f;", "", "const __grid_constant__ Table t")
for here, there in ((first, second), (second, first)):
    mine, others, walk = here.kernel(plain), there.kernel(plain), here.kernel(table)
    found = [here.launch(mine, here.memory), here.launch(others, here.memory), here.launch(mine, there.memory)]
    # Addresses in tables, as optimizers have them.
    for address in (here.memory.value, 0, there.memory.value + 64):
        found.append(here.launch(walk, Table(2, (ctypes.c_uint64 * 2)(address, here.memory.value))))
    print(found)
"""


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        (ALIGNED, [[0] * 3 + [MISALIGNED] * 3] * 6),
        (BOUNDS, [[0, OUT_OF_RESOURCES], [0, 0], [0, OUT_OF_RESOURCES]]),
        (DEVICES, [[0, INVALID_HANDLE, ILLEGAL_ADDRESS, 0, 0, ILLEGAL_ADDRESS]] * 2),
    ],
    ids=["aligned", "bounds", "devices"],
)
def test_what_a_card_would_refuse(program, wanted, tmp_path):
    emulator = ROOT / "crates/kernels/cuda/tests/emulator/build.sh"
    subprocess.run(["bash", str(emulator), str(tmp_path)], check=True)
    prelude = ROOT / "crates/kernels/cuda/src/text/prelude.cu"
    done = subprocess.run(
        [sys.executable, "-c", DRIVER + program, str(tmp_path), str(prelude)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert [eval(line) for line in done.stdout.splitlines()] == wanted, done.stderr
