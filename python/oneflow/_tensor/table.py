"""Every method of Tensor that is written in Python: the one place that attaches any."""

from __future__ import annotations

from typing import Any

from oneflow._base.overridable import overridable_method
from oneflow._functions import aliases, native, sparse, spectrogram, storages
from oneflow._linalg import decompositions
from oneflow._oneflow import Tensor
from oneflow._tensor import mesh_views, methods, older_methods, views

# From the files that define them; a name is defined once.
PARTS: tuple[dict[str, Any], ...] = (
    aliases.METHODS,
    native.METHODS,
    sparse.METHODS,
    spectrogram.METHODS,
    storages.METHODS,
    decompositions.METHODS,
    methods.METHODS,
    views.METHODS,
    older_methods.METHODS,
    mesh_views.METHODS,
)

# Functions that are methods too: each is a separate method, so that `__torch_function__` receives that.
FAMILIES = (native.METHODS, sparse.METHODS, spectrogram.METHODS, decompositions.METHODS)

for _part in PARTS:
    for _name, _method in _part.items():
        setattr(Tensor, _name, overridable_method(_method) if any(_part is f for f in FAMILIES) else _method)
