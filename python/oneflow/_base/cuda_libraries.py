"""Folders that may hold NVIDIA's libraries: pip's packages and CUDA_HOME. This file opens none of them."""

from __future__ import annotations

import glob
import os
import sys


def search_directories() -> list[str]:
    """Return absolute directories of shared libraries, those of pip's packages first.

    pip's packages share the namespace package ``nvidia``, which may be spread over the entries of ``sys.path``.
    """
    roots = [os.path.join(os.path.abspath(path or "."), "nvidia") for path in sys.path]
    found = [d for root in roots if os.path.isdir(root) for d in sorted(glob.glob(os.path.join(root, "*", "lib")))]
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        home = os.environ.get(variable)
        if home:
            found += [d for d in (os.path.join(home, "lib64"), os.path.join(home, "lib")) if os.path.isdir(d)]
    return list(dict.fromkeys(found))
