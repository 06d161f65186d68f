"""``torch.onnx.symbolic_helper``."""

from __future__ import annotations

from typing import Any


def parse_args(*arg_descriptors: str) -> Any:
    """Return functions as they are: no export calls them."""
    return lambda function: function
