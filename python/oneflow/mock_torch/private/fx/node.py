"""``torch.fx.node``."""

from typing import Any

from oneflow.fx import Node

__all__ = ["Argument", "Node", "Target"]

# Types of annotations.
Argument = Any
Target = Any
