"""``torch.fx``: :mod:`oneflow.fx`, whose classes refuse, with the modules they are in."""

from __future__ import annotations

from typing import Any

import oneflow.fx
from oneflow.mock_torch.private.fx import graph_module, node, proxy

__all__ = ["graph_module", "node", "proxy"]


def __getattr__(name: str) -> Any:
    return getattr(oneflow.fx, name)
