"""Which version this is, and what it was built with."""

from __future__ import annotations

import oneflow

__version__: str = oneflow.__version__
version = __version__
debug = False
git_version = "unknown"
# No library of a GPU is linked: what is found when the first GPU is used decides.
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
