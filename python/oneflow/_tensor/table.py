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

for _part in PARTS:
    for _name, _method in _part.items():
        # Each is a method of its own, also where it is a function too: `__torch_function__` receives the method.
        # Those of global tensors are no calls of PyTorch's tensors, and are not handed over; special methods see to it
        # themselves.
        _is_own = _part is mesh_views.METHODS or _name.startswith("__")
        _attached = _method if _is_own else overridable_method(_method)
        if getattr(_attached, "__name__", None) == f"_{_name}":
            # The function beside it has the public name.
            _attached.__name__ = _attached.__qualname__ = _name
        setattr(Tensor, _name, _attached)
