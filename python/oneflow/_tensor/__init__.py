"""The parts of ``Tensor`` that are written in Python: methods, the table that attaches them, printing, typed tensors.

Pickles find the functions that build their tensors here.
"""

from __future__ import annotations

from oneflow._tensor.methods import _rebuild_from_type, _rebuild_meta, _rebuild_sparse, _rebuild_tensor

for _function in (_rebuild_from_type, _rebuild_meta, _rebuild_sparse, _rebuild_tensor):
    _function.__module__ = __name__
