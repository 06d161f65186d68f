"""Kernels compiled ahead for GPUs that are not here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from oneflow import _oneflow

__all__ = ["precompile"]


def precompile(archs: Sequence[str] = ("sm_80", "sm_90a", "sm_100a")) -> int:
    """Compile every kernel in the cache for other GPUs, so that they need not when they first use it.

    The cache (``ONEFLOW_CUBIN_CACHE``, see the environment variables) keeps the text of each kernel that was compiled
    into it. This needs the run-time compiler and no GPU. The folder, copied to a machine with such a GPU, spares it the
    compilation.

    Args:
        archs: as the compiler names them: ``sm_80`` (A100), ``sm_90a`` (H100, H200), ``sm_100a`` (B200).

    Returns:
        How many kernels the cache has for these GPUs now.

    Raises:
        RuntimeError: no compiler, an architecture that it does not know, or nowhere to keep the code.

    Example::

        >>> oneflow.cuda.precompile([])
        0
    """
    if not archs:
        return 0
    folder = _oneflow._cuda_cubin_cache()
    if folder is None:
        raise RuntimeError("cuda.precompile: there is no cache to compile into (ONEFLOW_CUBIN_CACHE is 0, or no home)")

    def compile_text(path: Path) -> int:
        name, options, source = path.read_text().split("\n", 2)
        for arch in archs:
            _oneflow._cuda_compile(name, source, options.split(), arch)
        return len(archs)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return sum(pool.map(compile_text, sorted(Path(folder).glob("*.text"))))
