"""Metadata that nodes inherit from the node that is being run, while a graph is traced again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["get_current_meta", "has_preserved_node_meta", "preserve_node_meta", "set_current_meta"]

_meta: dict[str, Any] = {}
_preserved = False


@contextlib.contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Context manager: nodes created inside inherit the metadata of the node that is being run.

    Example::

        >>> from oneflow.fx.traceback import has_preserved_node_meta, preserve_node_meta
        >>> with preserve_node_meta():
        ...     has_preserved_node_meta()
        True
    """
    global _preserved, _meta
    before = _preserved, _meta
    _preserved, _meta = enable, dict(_meta)
    try:
        yield
    finally:
        _preserved, _meta = before


def has_preserved_node_meta() -> bool:
    """Return whether nodes inherit notes.

    Example::

        >>> oneflow.fx.traceback.has_preserved_node_meta()
        False
    """
    return _preserved


@contextlib.contextmanager
def set_current_meta(node: Any, pass_name: str = "") -> Iterator[None]:
    """``node`` is being run: nodes created inside inherit its metadata if :func:`preserve_node_meta` is on.

    Example::

        >>> from oneflow.fx import traceback
        >>> node = oneflow.fx.Graph().placeholder("x")
        >>> with traceback.set_current_meta(node):
        ...     traceback.get_current_meta()
        {}
    """
    global _meta
    before = _meta
    if _preserved:
        _meta = {**node.meta}
    try:
        yield
    finally:
        _meta = before


def get_current_meta() -> dict[str, Any]:
    """The notes of the node that is being run.

    Example::

        >>> oneflow.fx.traceback.get_current_meta()
        {}
    """
    return _meta
