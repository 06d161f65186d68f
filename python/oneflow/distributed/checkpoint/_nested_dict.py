"""PyTorch's module of this name, from which planners of programs import how state dictionaries are flattened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oneflow.distributed.checkpoint._flatten import Path, flatten

__all__ = ["flatten_state_dict"]


def flatten_state_dict(state_dict: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Path]]:
    """The entries of a nest of dictionaries and lists by their paths, joined by dots, and the path of each."""
    return flatten(state_dict)
