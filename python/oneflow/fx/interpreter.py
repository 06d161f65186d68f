"""Graphs run node by node, and traced again while they run."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

from oneflow.fx import traceback as fx_traceback
from oneflow.fx._symbolic_trace import Tracer
from oneflow.fx.graph import Graph
from oneflow.fx.graph_module import GraphModule
from oneflow.fx.node import Node, Target, map_aggregate, map_arg
from oneflow.fx.proxy import Proxy
from oneflow.nn import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a traced module node by node. Subclasses override what a kind of node does.

    Args:
        module: the module.
        garbage_collect_values: forget values after their last use.
        graph: the graph to run, in place of the module's own.

    Example::

        >>> class Counting(oneflow.fx.Interpreter):
        ...     calls = 0
        ...     def call_function(self, target, args, kwargs):
        ...         self.calls += 1
        ...         return super().call_function(target, args, kwargs)
        >>> run = Counting(oneflow.fx.symbolic_trace(lambda x: oneflow.relu(x) + 1))
        >>> run.run(oneflow.ones(1)), run.calls
        (tensor([2.]), 2)
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Any = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for user in reversed(self.graph.nodes) if garbage_collect_values else ():
            for node in user._input_nodes:
                if node not in seen:
                    seen.add(node)
                    self.user_to_last_uses.setdefault(user, []).append(node)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Run the graph.

        Args:
            args: the inputs by position.
            initial_env: values of nodes that are not run.
            enable_io_processing: whether the graph's code generator changes inputs and outputs first.
        """
        self.env = {} if initial_env is None else initial_env
        self.args_iter: Iterator[Any] = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    text = f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}"
                    error.args = (f"{error.args[0]}\n\n{text}" if error.args else text, *error.args[1:])
                    if isinstance(error, KeyError):
                        raise RuntimeError(*error.args) from error
                raise
            for dead in self.user_to_last_uses.get(node, ()):
                del self.env[dead]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """As :meth:`run`, of a list, which is emptied so that nobody else holds the inputs."""
        inputs = [node for node in self.graph.nodes if node.op == "placeholder"]
        if len(args_list) != len(inputs):
            raise RuntimeError(
                f"Interpreter.boxed_run expected {len(inputs)} arguments for placeholders but received {len(args_list)}"
            )
        values = dict(zip(inputs, args_list, strict=True))
        args_list.clear()
        return self.run(initial_env=values)

    @contextlib.contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with fx_traceback.set_current_meta(node, f"Interpreter_{type(self).__name__}"):
            yield

    def run_node(self, n: Node) -> Any:
        """Run one node."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The next input, or its default."""
        if str(target).startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!")

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function."""
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the first argument."""
        return getattr(args[0], str(target))(*args[1:], **kwargs)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a submodule."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """Return the attribute at a path of the module."""
        value: Any = self.module
        parts = target.split(".")
        for i, part in enumerate(parts):
            if not hasattr(value, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: i + 1])}")
            value = getattr(value, part)
        return value

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node, with values for nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """``args`` with values for nodes."""

        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[node]

        return map_arg(args, value)


class Transformer(Interpreter):
    """Traces a module again while it runs: what the overridden methods do becomes the new graph.

    Example::

        >>> class Negated(oneflow.fx.Transformer):
        ...     def call_function(self, target, args, kwargs):
        ...         return super().call_function(oneflow.neg, args, kwargs)
        >>> Negated(oneflow.fx.symbolic_trace(lambda x: oneflow.relu(x))).transform()(oneflow.ones(1))
        tensor([-1.])
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _Whole(self.new_graph, module)

    def placeholder(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        default = args[0] if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(str(target), default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        module = self.fetch_attr(str(target))
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The new module."""
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            made = self.new_graph.output(map_aggregate(result, lambda a: a.node if isinstance(a, Proxy) else a))
            made.meta.update(self.graph.output_node().meta)
        return GraphModule(self.module, self.new_graph)


class _Whole(Tracer):
    """Adds to a graph, and looks into no module."""

    def __init__(self, graph: Graph, root: Module) -> None:
        super().__init__()
        self.graph = graph
        self.root = root
        self.tensor_attrs = {}

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True
