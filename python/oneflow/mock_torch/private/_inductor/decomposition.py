"""``torch._inductor.decomposition``: ops that PyTorch's code generator replaces by others; nothing here reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["decompositions", "register_decomposition"]

decompositions: dict[Any, Callable[..., Any]] = {}


def register_decomposition(ops: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Keep a function under the ops that it decomposes."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        decompositions.update(dict.fromkeys(ops if isinstance(ops, (list, tuple)) else [ops], function))
        return function

    return keep
