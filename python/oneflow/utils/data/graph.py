"""The pipes that a pipe is made of: ``torch.utils.data.graph``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oneflow.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse_dps"]

_KINDS = (IterDataPipe, MapDataPipe)


def traverse_dps(datapipe: Any) -> dict[int, tuple[Any, Any]]:
    """Return the pipe and what it is made of: by ``id``, the pipe and the same of its sources.

    Sources are the pipes among its attributes, and in lists, tuples, sets and dictionaries there.

    Raises:
        RuntimeError: it is no pipe.

    Example::

        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> from oneflow.utils.data.graph import traverse_dps
        >>> pipe = IterableWrapper(range(3)).batch(2)
        >>> [(str(found), len(sources)) for found, sources in traverse_dps(pipe).values()]
        [('BatcherIterDataPipe', 1)]
    """
    if not isinstance(datapipe, _KINDS):
        raise RuntimeError(f"Expected `IterDataPipe` or `MapDataPipe`, but {type(datapipe)} is found")
    return _found(datapipe, frozenset())


def _found(pipe: Any, path: frozenset[int]) -> dict[int, tuple[Any, Any]]:
    if id(pipe) in path:
        return {}
    path = path | {id(pipe)}
    inner: dict[int, tuple[Any, Any]] = {}
    for source in _sources(pipe.__getstate__()):
        inner.update(_found(source, path))
    return {id(pipe): (pipe, inner)}


def _sources(held: Any) -> Iterator[Any]:
    if isinstance(held, _KINDS):
        yield held
    elif isinstance(held, (list, tuple, set, frozenset)):
        for item in held:
            yield from _sources(item)
    elif isinstance(held, dict):
        for item in held.values():
            yield from _sources(item)
