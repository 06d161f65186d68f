"""The settings of the build, as people print them in reports."""

from __future__ import annotations

import platform

import oneflow

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Text about the build: version, kind of machine, whether a CUDA driver was found.

    Example::

        >>> "oneflow" in oneflow.__config__.show()
        True
    """
    lines = [
        "oneflow built with:",
        f"  - oneflow {oneflow.__version__}",
        f"  - {platform.machine()}, {platform.system()}",
        f"  - CUDA available: {oneflow.cuda.is_available()}",
    ]
    return "\n".join(lines) + "\n"


def parallel_info() -> str:
    """Text about the threads that ops use.

    Example::

        >>> "threads" in oneflow.__config__.parallel_info()
        True
    """
    return f"the package's own thread pool:\n\tnumber of threads (get_num_threads) : {oneflow.get_num_threads()}\n"
