"""Sizes in bytes of the nodes of a traced module, and calls replaced by others."""

from __future__ import annotations

from typing import Any, NamedTuple

from oneflow.fx.graph import Graph
from oneflow.fx.graph_module import GraphModule
from oneflow.fx.node import Node, Target, map_arg
from oneflow.fx.passes.shape_prop import ShapeProp, TensorMetadata

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with", "size_bytes"]


class size_bytes(NamedTuple):
    """How many bytes the result of a node has, and how many with the parameters of the module that it calls.

    Example::

        >>> from oneflow.fx.passes.graph_manipulation import size_bytes
        >>> size_bytes(output_size=8, total_size=48).total_size
        48
    """

    output_size: int
    total_size: int


def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Target, new_op: str, new_target: Target
) -> None:
    """Call something else wherever a traced module has calls of one target.

    Args:
        fx_module: the module, which is changed.
        old_op, old_target: the op and the target of the nodes.
        new_op, new_target: the op and the target that they get; arguments and names stay.

    Example::

        >>> from oneflow.fx.passes.graph_manipulation import replace_target_nodes_with
        >>> traced = oneflow.fx.symbolic_trace(lambda x: oneflow.relu(x))
        >>> replace_target_nodes_with(traced, "call_function", oneflow.relu, "call_function", oneflow.neg)
        >>> traced(oneflow.ones(1))
        tensor([-1.])
    """
    graph = Graph()
    values: dict[Node, Node] = {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args, kwargs = map_arg((node.args, dict(node.kwargs)), values.__getitem__)
            values[node] = graph.create_node(new_op, new_target, args, dict(kwargs), node.name)
        else:
            values[node] = graph.node_copy(node, values.__getitem__)
    fx_module.graph = graph


def get_size_of_all_nodes(fx_module: GraphModule, args: list[Any] | None = None) -> None:
    """Note on each node its :class:`size_bytes`, as the attribute ``size_bytes``.

    Args:
        fx_module: the traced module.
        args: inputs with which it runs, so that shapes are known. None: :class:`ShapeProp` has run before.

    Example::

        >>> from oneflow.fx.passes.graph_manipulation import get_size_of_all_nodes
        >>> traced = oneflow.fx.symbolic_trace(oneflow.nn.Sequential(oneflow.nn.Linear(2, 3)))
        >>> get_size_of_all_nodes(traced, [oneflow.ones(1, 2)])
        >>> [tuple(node.size_bytes) for node in traced.graph.nodes if node.op != "output"]
        [(8, 8), (12, 48)]
    """
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op != "output":
            node.size_bytes = get_size_of_node(fx_module, node)


def get_tensor_meta(node: Node) -> TensorMetadata:
    """Return what :class:`ShapeProp` has noted about the tensor that a node gives.

    Raises:
        RuntimeError: it has not run, or the result is no tensor.

    Example::

        >>> from oneflow.fx.passes.graph_manipulation import get_tensor_meta
        >>> traced = oneflow.fx.symbolic_trace(lambda x: x + 1)
        >>> _ = oneflow.fx.passes.shape_prop.ShapeProp(traced).propagate(oneflow.ones(2))
        >>> get_tensor_meta(traced.graph.output_node()).dtype
        oneflow.float32
    """
    meta: TensorMetadata | None = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run."
        )
    return meta


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """Return the :class:`size_bytes` of one node, whose shape is known.

    Example::

        >>> from oneflow.fx.passes.graph_manipulation import get_size_of_node
        >>> traced = oneflow.fx.symbolic_trace(lambda x: x.sum(0))
        >>> _ = oneflow.fx.passes.shape_prop.ShapeProp(traced).propagate(oneflow.ones(4, 2))
        >>> get_size_of_node(traced, next(iter(traced.graph.nodes)))
        size_bytes(output_size=32, total_size=32)
    """
    meta = get_tensor_meta(node)
    n_parameters = 0
    if node.op == "call_module":
        n_parameters = sum(p.numel() for p in fx_module.get_submodule(str(node.target)).parameters())
    size = meta.dtype.itemsize
    return size_bytes(size * meta.shape.numel(), size * (meta.shape.numel() + n_parameters))
