"""Passes over traced modules."""

from oneflow.fx.passes import graph_manipulation, shape_prop, split_module

__all__ = ["graph_manipulation", "shape_prop", "split_module"]
