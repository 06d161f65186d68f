"""Collating and workers by the names under which programs import them from PyTorch's loader."""

from __future__ import annotations

import sys

from oneflow.utils.data import _workers as worker
from oneflow.utils.data import collate
from oneflow.utils.data import pinning as pin_memory

# What `import ..._utils.collate` asks of a package.
__path__: list[str] = []
__all__ = ["collate", "pin_memory", "worker"]

for _name, _module in (("collate", collate), ("pin_memory", pin_memory), ("worker", worker)):
    sys.modules[f"{__name__}.{_name}"] = _module
