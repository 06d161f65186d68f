"""Notes on each node the shape and dtype of its result, by running the module."""

from __future__ import annotations

from typing import Any, NamedTuple

import oneflow
from oneflow import Tensor
from oneflow.fx.interpreter import Interpreter
from oneflow.fx.node import Node, map_aggregate

__all__ = ["ShapeProp"]


class TensorMetadata(NamedTuple):
    """The properties of a tensor other than its values."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(value: Tensor) -> TensorMetadata:
    """The properties of a tensor, under the name by which packages import it."""
    formats = (oneflow.contiguous_format, oneflow.channels_last, oneflow.channels_last_3d)
    ranks = {oneflow.channels_last: 4, oneflow.channels_last_3d: 5}
    fits = (f for f in formats if ranks.get(f, value.ndim) == value.ndim and value.is_contiguous(memory_format=f))
    return TensorMetadata(
        value.shape, value.dtype, value.requires_grad, tuple(value.stride()), next(fits, None), False, {}
    )


class ShapeProp(Interpreter):
    """Runs a module and notes ``node.meta["tensor_meta"]`` and ``node.meta["type"]``.

    Example::

        >>> traced = oneflow.fx.symbolic_trace(lambda x: x.sum(0))
        >>> _ = oneflow.fx.passes.shape_prop.ShapeProp(traced).propagate(oneflow.ones(2, 3))
        >>> [tuple(node.meta["tensor_meta"].shape) for node in traced.graph.nodes]
        [(2, 3), (3,), (3,)]
    """

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        tensors = False

        def note(value: Any) -> Any:
            nonlocal tensors
            if isinstance(value, Tensor):
                tensors = True
                return _extract_tensor_metadata(value)
            return value

        described = map_aggregate(result, note)
        if tensors:
            n.meta["tensor_meta"] = described
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the module with these inputs; returns its result."""
        return super().run(*args)
