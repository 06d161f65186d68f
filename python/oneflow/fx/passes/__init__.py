"""Passes over traced modules."""

from oneflow.fx.passes import shape_prop, split_module

__all__ = ["shape_prop", "split_module"]
