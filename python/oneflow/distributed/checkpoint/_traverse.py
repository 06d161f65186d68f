"""PyTorch's module of this name: walks through state dictionaries, and entries by their paths.

A path is a tuple of the keys, as texts, and of the places in lists. Lists without tensors or dictionaries are entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from oneflow import Tensor

__all__ = ["get_element", "print_tensor", "set_element", "traverse_state_dict"]

Path = tuple[str | int, ...]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def traverse_state_dict(
    state_dict: Mapping[str, Any],
    visitor: Callable[[Path, Any], None],
    keep_traversing: Callable[[Any], bool] | None = _is_tensor,
) -> None:
    """Call ``visitor(path, value)`` for each entry of a nest of dictionaries and lists.

    Args:
        state_dict: the nest.
        visitor: what is done with an entry.
        keep_traversing: for which values a list that holds them is walked through.
    """

    for path, value in _entries((), state_dict, keep_traversing):
        visitor(path, value)


def _entries(path: Path, value: Any, keep: Callable[[Any], bool] | None) -> Iterator[tuple[Path, Any]]:
    """The entries below a path."""
    # A closure that calls itself would be a cycle, which keeps tensors until a collection.
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entries((*path, str(key)), item, keep)
    elif _holds_entries(value, keep):
        for place, item in enumerate(value):
            yield from _entries((*path, place), item, keep)
    else:
        yield path, value


def _holds_entries(value: Any, keep: Callable[[Any], bool] | None) -> bool:
    """Whether a list is to be walked through."""
    return isinstance(value, list) and any(
        isinstance(item, Mapping) or _holds_entries(item, keep) or (keep is not None and keep(item)) for item in value
    )


def set_element(root_dict: MutableMapping[str, Any], path: Path, value: Any) -> None:
    """Put a value at its path. Dictionaries and lists on the way are made, lists with ``None`` in gaps."""
    place: Any = root_dict
    for key, following in zip(path, (*path[1:], None), strict=True):
        if isinstance(place, list) and isinstance(key, int):
            place.extend([None] * (key + 1 - len(place)))
            known = place[key] is not None
        else:
            known = key in place
        if following is None:
            place[key] = value
            return
        if not known:
            place[key] = {} if isinstance(following, str) else []
        place = place[key]


def get_element(root_dict: Mapping[str, Any], path: Path, default_value: Any = None) -> Any:
    """Return the value at a path, or ``default_value`` where there is none."""
    value: Any = root_dict
    for key in path:
        if isinstance(key, int):
            if not isinstance(value, list) or key >= len(value):
                return default_value
        elif not isinstance(value, Mapping) or key not in value:
            return default_value
        value = value[key]
    return value


def print_tensor(path: Path, value: Any, print_fun: Callable[[str], None] = print) -> None:
    """Say what an entry is, as a visitor of :func:`traverse_state_dict`: a tensor's size, or the type."""
    if isinstance(value, Tensor):
        print_fun(f"{path} {'DistributedTensor' if value.is_global else 'Tensor'} size: {value.size()}")
    else:
        print_fun(f"{path} Type: {type(value)}")
