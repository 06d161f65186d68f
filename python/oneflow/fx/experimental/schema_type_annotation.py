"""Types of nodes, read from the annotations of what they call."""

from __future__ import annotations

import inspect
from typing import Any

import oneflow
from oneflow.fx.graph_module import GraphModule
from oneflow.fx.interpreter import Transformer
from oneflow.fx.node import base_types

__all__ = ["AnnotateTypesWithSchema"]


class AnnotateTypesWithSchema(Transformer):
    """Give nodes without a type the annotated return type of the layer or function that they call.

    Args:
        module: the traced module.
        annotate_functionals: calls of functions of ``nn.functional`` get a type.
        annotate_modules: calls of modules of ``nn`` get a type.
        annotate_get_attrs: attributes get the type of their value.

    Example::

        >>> from oneflow.fx.experimental.schema_type_annotation import AnnotateTypesWithSchema
        >>> traced = oneflow.fx.symbolic_trace(oneflow.nn.Sequential(oneflow.nn.ReLU()))
        >>> [node.type for node in AnnotateTypesWithSchema(traced).transform().graph.nodes][1] is oneflow.Tensor
        True
    """

    def __init__(
        self,
        module: GraphModule,
        annotate_functionals: bool = True,
        annotate_modules: bool = True,
        annotate_get_attrs: bool = True,
    ) -> None:
        super().__init__(module)
        self.annotate_functionals = annotate_functionals
        self.annotate_modules = annotate_modules
        self.annotate_get_attrs = annotate_get_attrs

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = super().call_function(target, args, kwargs)
        if self.annotate_functionals and getattr(target, "__module__", None) == "oneflow.nn.functional":
            made.node.type = made.node.type or _returned(target)
        return made

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = super().call_module(target, args, kwargs)
        cls = type(self.fetch_attr(target))
        if self.annotate_modules and getattr(oneflow.nn, cls.__name__, None) is cls:
            made.node.type = made.node.type or _returned(cls.forward)
        return made

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = super().get_attr(target, args, kwargs)
        value = self.fetch_attr(target)
        if self.annotate_get_attrs and isinstance(value, base_types):
            made.node.type = made.node.type or (oneflow.Tensor if isinstance(value, oneflow.Tensor) else type(value))
        return made


def _returned(function: Any) -> Any:
    try:
        annotation = inspect.signature(function, eval_str=True).return_annotation
    except (NameError, TypeError, ValueError):
        return None
    return None if annotation is inspect.Signature.empty else annotation
