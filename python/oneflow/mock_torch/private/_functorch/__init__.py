"""``torch._functorch``: the module of ``vmap`` under its private name."""

from __future__ import annotations

from oneflow.mock_torch.private._functorch import vmap

__all__ = ["vmap"]
