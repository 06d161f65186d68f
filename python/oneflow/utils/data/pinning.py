"""Batches in pinned host memory, from where a GPU copies them by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oneflow import Tensor
from oneflow.utils.data.collate import _like

__all__ = ["pin_memory"]


def pin_memory(data: Any, device: Any = None) -> Any:
    """Return ``data`` with its tensors in pinned host memory.

    Tensors inside mappings, named tuples, tuples and lists are found; another object with a method ``pin_memory`` is
    asked itself. What is left stays as it is.

    Args:
        data: a batch, as a ``collate_fn`` returns it.
        device: accepted for compatibility; memory is pinned for all GPUs.

    Raises:
        RuntimeError: there is no GPU.

    Example::

        >>> oneflow.utils.data.pinning.pin_memory([1, "a"])
        [1, 'a']
    """
    if isinstance(data, Tensor):
        return data.pin_memory() if data.device.type == "cpu" else data
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return _like(data, {key: pin_memory(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(value) for value in data))
    if isinstance(data, tuple):
        return [pin_memory(value) for value in data]
    if isinstance(data, Sequence):
        return _like(data, [pin_memory(value) for value in data])
    pin = getattr(data, "pin_memory", None)
    return data if pin is None else pin()
