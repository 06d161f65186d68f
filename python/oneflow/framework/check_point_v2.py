"""Saving, loading, and sending Python objects between ranks."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow.serialization import load, save

__all__ = ["_broadcast_py_object", "load", "save"]


def _broadcast_py_object(obj: Any, src: int = 0) -> Any:
    """Return the object of rank ``src``, on every rank."""
    if oneflow.env.get_world_size() == 1:
        return obj
    objects = [obj]
    oneflow.distributed.broadcast_object_list(objects, src)
    return objects[0]
