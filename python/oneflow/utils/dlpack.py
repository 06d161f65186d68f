"""Tensors shared with other libraries through DLPack, under the names of ``torch.utils.dlpack``."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor

__all__ = ["from_dlpack", "to_dlpack"]

from_dlpack = oneflow.from_dlpack


def to_dlpack(tensor: Tensor) -> Any:
    """Return a capsule over the memory of ``tensor``, which another library takes once.

    Example::

        >>> oneflow.utils.dlpack.from_dlpack(oneflow.utils.dlpack.to_dlpack(oneflow.ones(2)))
        tensor([1., 1.])
    """
    return tensor.__dlpack__()
