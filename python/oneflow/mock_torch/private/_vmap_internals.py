"""``torch._vmap_internals``: the older ``vmap``, which the present one has replaced."""

from __future__ import annotations

from oneflow.func import vmap

__all__: list[str] = []

_vmap = vmap
