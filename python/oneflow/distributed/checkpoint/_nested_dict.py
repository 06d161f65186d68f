"""PyTorch's module of this name, from which planners of programs import how state dictionaries are flattened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oneflow.distributed.checkpoint._traverse import Path, set_element, traverse_state_dict

__all__ = ["flatten_state_dict", "unflatten_state_dict"]


def flatten_state_dict(state_dict: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Path]]:
    """The entries of a nest of dictionaries and lists by their paths, joined by dots, and the path of each.

    Keys of dictionaries become texts, as PyTorch has it; the package's own planners keep numbers.
    """
    entries: dict[str, Any] = {}
    paths: dict[str, Path] = {}

    def visit(path: Path, value: Any) -> None:
        name = ".".join(map(str, path))
        if name in entries:
            raise ValueError(f"duplicated flatten key {name}")
        entries[name], paths[name] = value, path

    traverse_state_dict(state_dict, visit)
    return entries, paths


def unflatten_state_dict(state_dict: Mapping[str, Any], mapping: Mapping[str, Path]) -> dict[str, Any]:
    """The nest again, from its entries and their paths; numbers in paths are places in lists, as PyTorch takes them."""
    nested: dict[str, Any] = {}
    for name, value in state_dict.items():
        set_element(nested, mapping[name], value)
    return nested
