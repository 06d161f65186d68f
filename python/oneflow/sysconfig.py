"""Build settings of the installed package, under OneFlow's names."""

from __future__ import annotations

import oneflow
from oneflow._base.refusals import refuse

__all__ = [
    "cmake_build_type",
    "get_compile_flags",
    "get_cuda_version",
    "get_include",
    "get_lib",
    "get_link_flags",
    "get_liboneflow_link_flags",
    "has_rpc_backend_grpc",
    "has_rpc_backend_local",
    "with_cuda",
    "with_mlir",
    "with_mlir_cuda_codegen",
    "with_rdma",
]

_INSTEAD = "the package has no C++ headers and no library to link; extend it with oneflow.library or the Rust crates"

get_include = refuse("oneflow.sysconfig.get_include", _INSTEAD)
get_lib = refuse("oneflow.sysconfig.get_lib", _INSTEAD)
get_compile_flags = refuse("oneflow.sysconfig.get_compile_flags", _INSTEAD)
get_link_flags = refuse("oneflow.sysconfig.get_link_flags", _INSTEAD)
get_liboneflow_link_flags = refuse("oneflow.sysconfig.get_liboneflow_link_flags", _INSTEAD)


def cmake_build_type() -> str:
    """The kind of build, by CMake's names.

    Example::

        >>> oneflow.sysconfig.cmake_build_type()
        'Release'
    """
    return "Release"


def with_cuda() -> bool:
    """Return whether a GPU can be used: the CUDA libraries are looked for when the program runs.

    Example::

        >>> oneflow.sysconfig.with_cuda() == oneflow.cuda.is_available()
        True
    """
    return oneflow.cuda.is_available()


def get_cuda_version() -> int:
    """The version of CUDA as 1000 times the major number plus 10 times the minor one, or 0 without a GPU.

    Example::

        >>> oneflow.sysconfig.get_cuda_version() >= 0
        True
    """
    if not with_cuda() or not oneflow.version.cuda:
        return 0
    major, _, minor = str(oneflow.version.cuda).partition(".")
    return 1000 * int(major) + 10 * int(minor or 0)


def with_rdma() -> bool:
    """Return whether messages between machines go by RDMA: False, they go by TCP.

    Example::

        >>> oneflow.sysconfig.with_rdma()
        False
    """
    return False


def with_mlir() -> bool:
    """Return whether graphs go through MLIR: False, the compiler is the package's own.

    Example::

        >>> oneflow.sysconfig.with_mlir()
        False
    """
    return False


def with_mlir_cuda_codegen() -> bool:
    """As :func:`with_mlir`.

    Example::

        >>> oneflow.sysconfig.with_mlir_cuda_codegen()
        False
    """
    return False


def has_rpc_backend_grpc() -> bool:
    """Return whether processes find each other by gRPC: False, by the package's own store.

    Example::

        >>> oneflow.sysconfig.has_rpc_backend_grpc()
        False
    """
    return False


def has_rpc_backend_local() -> bool:
    """Return whether a program runs as one process without a launcher: True.

    Example::

        >>> oneflow.sysconfig.has_rpc_backend_local()
        True
    """
    return True
