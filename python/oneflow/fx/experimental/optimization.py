"""Rewrites of traced modules for inference."""

from __future__ import annotations

import copy
from typing import Any

import oneflow
from oneflow import nn
from oneflow.fx._symbolic_trace import symbolic_trace
from oneflow.fx.graph_module import GraphModule
from oneflow.fx.interpreter import Transformer
from oneflow.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = ["fuse", "remove_dropout"]

_PAIRS: tuple[tuple[type, type, Any], ...] = (
    (nn.Conv1d, nn.BatchNorm1d, fuse_conv_bn_eval),
    (nn.Conv2d, nn.BatchNorm2d, fuse_conv_bn_eval),
    (nn.Conv3d, nn.BatchNorm3d, fuse_conv_bn_eval),
    (nn.Linear, nn.BatchNorm1d, fuse_linear_bn_eval),
)


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> GraphModule:
    """A module in which batch norms behind convolutions and linear layers are part of their weights.

    Args:
        model: the module, in eval mode.
        inplace: change the module itself.
        no_trace: it is traced already.

    Example::

        >>> from oneflow.fx.experimental.optimization import fuse
        >>> model = oneflow.nn.Sequential(oneflow.nn.Conv2d(1, 2, 3), oneflow.nn.BatchNorm2d(2)).eval()
        >>> [node.op for node in fuse(model).graph.nodes]
        ['placeholder', 'call_module', 'output']
    """
    if not inplace:
        model = copy.deepcopy(model)
    traced: Any = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for layer, norm, fused in _PAIRS:
        for node in graph.nodes:
            first = node.args[0] if node.args else None
            if not (isinstance(first, oneflow.fx.Node) and node.op == first.op == "call_module"):
                continue
            before: Any = modules[first.target]
            after: Any = modules[node.target]
            if type(before) is not layer or type(after) is not norm or len(first.users) > 1:
                continue
            if not getattr(after, "track_running_stats", True):
                continue
            path, _, name = str(first.target).rpartition(".")
            modules[str(first.target)] = made = fused(before, after)
            setattr(modules[path], name, made)
            node.replace_all_uses_with(first)
            graph.erase_node(node)
    return GraphModule(traced, graph)


def remove_dropout(model: nn.Module) -> GraphModule:
    """A module without its dropouts.

    Example::

        >>> from oneflow.fx.experimental.optimization import remove_dropout
        >>> model = oneflow.nn.Sequential(oneflow.nn.Dropout(0.5), oneflow.nn.ReLU())
        >>> remove_dropout(model)(oneflow.ones(1))
        tensor([1.])
    """

    class Without(Transformer):
        def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if isinstance(self.submodules[target], nn.Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)

    return Without(symbolic_trace(model)).transform()
