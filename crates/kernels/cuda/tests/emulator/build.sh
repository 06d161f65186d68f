#!/usr/bin/env bash
# Builds the emulated libcuda, libnvrtc, libcublasLt, libnccl, libcudnn, libcufft, libcusolver and libcublas into a directory. With it,
# everything that needs a GPU runs on the host, slowly: LD_LIBRARY_PATH=DIR ONEFLOW_CUDA_LIB_DIRS=DIR python -m pytest -m gpu
# EMULATOR_SEED chooses the order of streams and threads (1; 0: all work is done when it is issued), EMULATOR_DEVICES the number of
# devices (1).
set -euo pipefail
from=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
to=$1
mkdir -p "$to"
build() {
    # Other processes see a whole library or none. Each library uses its own types, also where another has one of the same name.
    g++ -std=c++17 -O1 -shared -fPIC -fno-gnu-unique -Wl,-Bsymbolic "-DEMULATOR_SHIM=\"$from/shim.h\"" "${@:3}" "-Wl,-soname,$2" -o "$to/$2.$$" "$from/$1.cpp" -ldl -pthread
    mv "$to/$2.$$" "$to/$2"
}
build cuda libcuda.so.1
build nvrtc libnvrtc.so.13
build cublaslt libcublasLt.so.13
build nccl libnccl.so.2
build cufft libcufft.so.12
build cusolver libcusolver.so.12
build cudnn libcudnn.so.9
build cusolver libcublas.so.13 -DBLAS
