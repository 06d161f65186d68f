"""``torch.fx.node``."""

from typing import Any

from oneflow.fx import Node, map_arg

__all__ = ["Argument", "Node", "Target", "map_arg"]

# Types of annotations.
Argument = Any
Target = Any
