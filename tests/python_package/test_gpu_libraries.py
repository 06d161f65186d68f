"""The tables of C functions that stand for NVIDIA's libraries, against the headers and libraries of pip's packages."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLES = ROOT / "crates/ep/src/cuda"
# File, its library, and the headers that declare its functions.
LIBRARIES = {
    "fft.rs": (["cufft"], ["cufft.h", "cufftXt.h"]),
    "solver.rs": (["cusolver", "cublas"], ["cusolverDn.h", "cublas_v2.h"]),
}
ENTRY = re.compile(r'= "(\w+)":\s*fn\(([^)]*)\) -> c_int;')
# A pointer, numbers of eight and four bytes, and of one.
KINDS = {"usize": "l", "i64": "l", "c_int": "i", "c_char": "c", "Raw": "p", "Size": "p"}

# Of the compiler's package, which is not needed otherwise: what its words mean to a host compiler.
HOST_DEFINES = """
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __align__(n) __attribute__((aligned(n)))
#define __forceinline__ inline
#define __inline_hint__
#define __no_return__
#define __noinline__
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDA_STUB_WEAK
// A header that wants the whole compiler, for functions that nobody uses here.
#define _CUDA_LIB_XT_H_
struct cudaLibXtDesc;
"""
PROGRAM = """
#include <cstdio>
#include <type_traits>
%s
template <class T> char kind() {
    if (std::is_pointer<T>::value) return 'p';
    return sizeof(T) == 8 ? 'l' : sizeof(T) == 4 ? 'i' : 'c';
}
template <class R, class... A> void say(const char* name, R (*)(A...)) {
    const char kinds[] = {kind<A>()..., 0};
    std::printf("%%s %%s %%d\\n", name, kinds, (int)sizeof(R));
}
int main() { %s }
"""


def nvidia():
    import importlib.util

    spec = importlib.util.find_spec("nvidia")
    found = [Path(p) / "cu13" for p in (spec.submodule_search_locations if spec else [])]
    found = [p for p in found if (p / "include/cusolverDn.h").exists() and (p / "include/cuda_runtime_api.h").exists()]
    return found[0] if found else pytest.skip("no packages of NVIDIA's")


def table(name):
    entries = ENTRY.findall((TABLES / name).read_text())
    kinds = {}
    for symbol, parameters in entries:
        given = [p.strip() for p in parameters.split(",") if p.strip()]
        kinds[symbol] = "".join("p" if p.startswith(("*mut", "*const")) else KINDS[p] for p in given)
    return kinds


@pytest.mark.parametrize("name", LIBRARIES)
def test_signatures_are_those_of_the_headers(name, tmp_path):
    folder, ours = nvidia(), table(name)
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    assert len(ours) >= 8
    includes = "\n".join(f"#include <{header}>" for header in LIBRARIES[name][1])
    calls = " ".join(f'say("{symbol}", {symbol});' for symbol in ours)
    # Declarations alone: the functions' addresses are never taken at run time.
    source, program = tmp_path / "kinds.cpp", tmp_path / "kinds"
    source.write_text(PROGRAM % (includes, calls))
    stubs = tmp_path / "stubs.cpp"
    stubs.write_text("\n".join(f'extern "C" void {symbol}() {{}}' for symbol in ours))
    (tmp_path / "crt").mkdir()
    (tmp_path / "crt/host_defines.h").write_text(HOST_DEFINES)
    subprocess.run(["g++", "-O0", f"-I{tmp_path}", f"-I{folder}/include", source, stubs, "-o", program], check=True)
    said = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    theirs = {line.split()[0]: line.split()[1:] for line in said}
    assert {symbol: [kinds, "4"] for symbol, kinds in ours.items()} == theirs


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_libraries_have_the_functions(name):
    folder = nvidia()
    for prefix in LIBRARIES[name][0]:
        library = next((folder / "lib").glob(f"lib{prefix}.so.*"))
        opened = ctypes.CDLL(str(library))
        symbols = [symbol for symbol in table(name) if symbol.startswith(prefix)]
        assert symbols and all(hasattr(opened, symbol) for symbol in symbols)
        if prefix != "cublas":
            version = ctypes.c_int()
            get = opened.cufftGetVersion if prefix == "cufft" else opened.cusolverGetVersion
            assert get(ctypes.byref(version)) == 0 and version.value >= 11000
