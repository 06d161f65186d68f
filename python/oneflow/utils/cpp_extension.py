"""Building C++ or CUDA sources into the package is not provided.

New ops are written in Rust (one file and one line of the table) or as :class:`oneflow.autograd.Function`.
"""

from __future__ import annotations

from oneflow._base.refusals import refuse, refuse_class

__all__ = ["BuildExtension", "CUDAExtension", "CUDA_HOME", "CppExtension", "include_paths", "load", "load_inline"]

_INSTEAD = "write the op in Rust (see CONTRIBUTING.md) or as an oneflow.autograd.Function"
_PLACE = "oneflow.utils.cpp_extension"

CUDA_HOME: str | None = None
ROCM_HOME: str | None = None
IS_HIP_EXTENSION = False

load = refuse(f"{_PLACE}.load", _INSTEAD)
load_inline = refuse(f"{_PLACE}.load_inline", _INSTEAD)
include_paths = refuse(f"{_PLACE}.include_paths", _INSTEAD)
CppExtension = refuse(f"{_PLACE}.CppExtension", _INSTEAD)
CUDAExtension = refuse(f"{_PLACE}.CUDAExtension", _INSTEAD)
BuildExtension = refuse_class(f"{_PLACE}.BuildExtension", _INSTEAD)
