"""State dictionaries as flat tables, and back: an entry's name is its path, joined by dots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from oneflow import Tensor

__all__ = ["flatten", "plain_paths", "set_entry"]

Path = tuple[str | int, ...]


class _Place(int):
    """A place in a list, in a path; a number that is not one is a key of a dictionary."""


def flatten(state_dict: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Path]]:
    """The entries of a nest of dictionaries and lists, and the path of each.

    Lists without tensors or dictionaries are entries, as PyTorch counts them. A path of which another has the name
    raises ValueError.
    """
    entries: dict[str, Any] = {}
    paths: dict[str, Path] = {}

    for path, value in _entries(dict(state_dict), ()):
        name = ".".join(map(str, path))
        if name in entries:
            raise ValueError(f"duplicate entry in the state dictionary: {name!r} is the name of two paths")
        entries[name], paths[name] = value, path
    return entries, paths


def _entries(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """The entries below a path."""
    # A closure that calls itself would be a cycle, which keeps tensors until a collection.
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            # Optimizers number parameters: the number comes back as one.
            yield from _entries(item, (*path, key if isinstance(key, int) else str(key)))
    elif isinstance(value, (list, tuple)) and any(isinstance(v, (Tensor, Mapping, list)) for v in value):
        for i, item in enumerate(value):
            yield from _entries(item, (*path, _Place(i)))
    else:
        yield path, value


def plain_paths(paths: Mapping[str, Path]) -> dict[str, Path]:
    """Paths as checkpoints keep them, and PyTorch: numbers are places in lists, keys of dictionaries are texts."""
    return {
        name: tuple(int(key) if isinstance(key, _Place) else str(key) for key in path) for name, path in paths.items()
    }


def set_entry(state_dict: Any, path: Path, value: Any) -> None:
    """Put a value at its path, which exists."""
    place = state_dict
    for key in path[:-1]:
        place = place[key]
    if isinstance(place, tuple):
        raise TypeError(f"load: the entry {'.'.join(map(str, path))!r} stands in a tuple, which cannot be changed")
    place[path[-1]] = value
