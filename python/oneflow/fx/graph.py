"""Graphs: the nodes of a traced program in the order in which they run."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import oneflow
from oneflow.fx import _targets
from oneflow.fx._codegen import CodeGen, PythonCode, transformed
from oneflow.fx._codegen import _PyTreeCodeGen as _PyTreeCodeGen
from oneflow.fx._codegen import _PyTreeInfo as _PyTreeInfo
from oneflow.fx._namespace import Namespace as _Namespace
from oneflow.fx._namespace import snake_case as _snake_case
from oneflow.fx.node import OPS, Node, Target, map_arg

if TYPE_CHECKING:
    from oneflow.fx.graph_module import GraphModule

__all__ = ["CodeGen", "Graph"]

_LEGAL = OPS[:-1]


class _Absent:
    """Marks a default that was not given. `inspect.Signature.empty` would do, but hides it in a signature."""

    def __repr__(self) -> str:
        return "<absent>"


_ABSENT = _Absent()


class _node_list:
    """The nodes of a graph, forwards or backwards; nodes may come and go meanwhile."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        if direction not in ("_next", "_prev"):
            raise AssertionError(f"direction must be '_next' or '_prev', got {direction}")
        self.graph = graph
        self.direction = direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = getattr(root, self.direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self) -> Iterator[Node]:
        return iter(_node_list(self.graph, "_prev" if self.direction == "_next" else "_next"))


class _InsertPoint:
    """The insertion point of nodes; the end of a ``with`` block restores the one before."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.before, graph._insert = graph._insert, insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        self.graph._insert = self.before


class Graph:
    """A traced program: a list of :class:`Node`, which :meth:`python_code` writes as a function.

    Example::

        >>> graph = oneflow.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> y = graph.call_function(oneflow.relu, (x,))
        >>> _ = graph.output(y)
        >>> print(graph)
        graph():
            %x : [num_users=1] = placeholder[target=x]
            %relu : [num_users=1] = call_function[target=oneflow.relu](args = (%x,), kwargs = {})
            return relu
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: Any = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._ordered = False
        self._graph_namespace = _Namespace()
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}

    @property
    def owning_module(self) -> Any:
        """The module whose ``forward`` this graph is, if there is one."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: GraphModule | None) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> Any:
        """The nodes in order. Nodes may be inserted and erased while one iterates."""
        return _node_list(self)

    def output_node(self) -> Node:
        """The node that returns the result."""
        node = next(iter(reversed(self.nodes)))
        if node.op != "output":
            raise AssertionError(f"the last node of the graph is {node.op}, not output")
        return node

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """Return the nodes of an op, and with ``target`` those of one target."""
        if op == "call_function" and target is None:
            raise AssertionError("target must be specified for call_function")
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    # ---- nodes come and go

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Insert a node at the current place; :meth:`inserting_before` changes the place."""
        args, kwargs = args or (), kwargs or {}
        if op not in _LEGAL:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        chosen = self._graph_namespace.create_name(self._target_to_str(target) if name is None else name)
        node = Node(self, chosen, op, target, args, kwargs, type_expr)
        for hook in getattr(self.owning_module, "_create_node_hooks", None) or ():
            hook(node)
        self._graph_namespace.associate_name_with_obj(chosen, node)
        self._insert(node)
        self._len += 1
        return node

    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders, from the arguments of the module."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Return the module's result, from the value of the output node."""
        return self._codegen.process_outputs(out)

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that nobody uses; raises RuntimeError where somebody does."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            import warnings

            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", None) or ():
            hook(to_erase)
        to_erase._unlink()
        to_erase._erased = True
        self._len -= 1
        to_erase._set_arguments((), {})

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Insert in front of ``n``, or of all nodes: in a ``with`` block, or from here on."""
        if n is None:
            return self.inserting_after(self._root)
        self._own(n)
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Insert behind ``n``, or behind all nodes: in a ``with`` block, or from here on."""
        if n is None:
            return self.inserting_before(self._root)
        self._own(n)
        return _InsertPoint(self, n.append)

    def _own(self, node: Node) -> None:
        if node.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = _ABSENT) -> Node:
        """Insert a parameter of the function."""
        args = () if default_value is _ABSENT or default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Insert a read of an attribute of the module, such as ``"block.weight"``."""
        module = self.owning_module
        if module is not None and not _has(module, qualified_name):
            import warnings

            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the "
                "necessary Parameter, or nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Insert a call of a submodule."""
        if self.owning_module is not None and not _has(self.owning_module, module_name):
            import warnings

            warnings.warn(
                "Attempted to insert a call_module Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Insert a call of a method of ``args[0]``."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """Insert a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """Insert the return of ``result``."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """Insert a copy of a node of another graph.

        Args:
            node: the node.
            arg_transform: maps the nodes that are its arguments to nodes of this graph.
        """
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, dict(kwargs), node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Copy the nodes of ``g`` to the end of this graph; return the counterpart of its result.

        Args:
            g: the graph.
            val_map: maps nodes of ``g`` to their counterparts; those that are in it already are not copied.
            return_output_node: return the output node of ``g`` too.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        memo = {} if memo is None else memo
        made = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        values: dict[Node, Node] = {}
        copied = made.graph_copy(self, values, return_output_node=True)
        made._codegen = copy.deepcopy(self._codegen)
        made._co_fields = dict(self._co_fields)
        for old, new in values.items():
            memo[id(old)] = new
        if copied is not None:
            result, old = copied
            new = made.output(result, old.type)
            new.name = old.name
            new.meta = copy.copy(old.meta)
        return made

    # ---- code and text

    def set_codegen(self, codegen: CodeGen) -> None:
        """Set what writes the code."""
        self._codegen = codegen

    def python_code(self, root_module: str, *, verbose: bool = False, **options: Any) -> PythonCode:
        """The graph as a function.

        Args:
            root_module: the name of the module in the code, mostly "self".
            verbose: add a comment with the source location of each node, and shapes that passes recorded.

        Example::

            >>> graph = oneflow.fx.symbolic_trace(lambda x: x + 1).graph
            >>> print(graph.python_code("self").src.strip())
            def forward(self, x):
                add = x + 1;  x = None
                return add
        """
        namespace = _Namespace()
        nodes = list(self.nodes)
        before = [node._repr_fn for node in nodes]
        for node in nodes:
            node._repr_fn = lambda n: namespace.create_name(n.name, n)
        try:
            return self._codegen._gen_python_code(nodes, root_module, namespace, verbose=verbose, **options)
        finally:
            for node, function in zip(nodes, before, strict=True):
                node._repr_fn = function

    def on_generate_code(self, make_transformer: Callable[[Any], Any]) -> Any:
        """Change the lines of the code before they are compiled.

        ``make_transformer`` gets the transformer so far, or None, and returns a function from a list of lines to one.
        In a ``with`` block the change is undone at its end.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)
        return _entered(transformed(self._codegen, before))

    def __str__(self) -> str:
        names: list[str] = []
        lines = [node.format_node(names, [""]) for node in self.nodes]
        return "\n    ".join([f"graph({', '.join(names)}):", *filter(None, lines)])

    def print_tabular(self) -> None:
        """Print the nodes as a table; the package ``tabulate`` must be installed."""
        try:
            from tabulate import tabulate  # type: ignore[import-untyped]
        except ImportError:
            print("`print_tabular` needs the package `tabulate`: run `pip install tabulate`")  # noqa: T201
            raise
        rows = [[n.op, n.name, n.target, n.args, n.kwargs] for n in self.nodes]
        print(tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"]))  # noqa: T201

    def _target_to_str(self, target: Any) -> str:
        text = target if isinstance(target, str) else _targets.function_name(target)
        if text.startswith("__") and text.endswith("__"):
            text = text[2:-2]
        return _snake_case(text)

    # ---- order

    def lint(self) -> None:
        """Raise RuntimeError where the graph is not well formed: an argument of another graph or from further below,
        a name that stands twice, a target that the module lacks."""
        names: set[str] = set()
        seen: set[Node] = set()
        for node in self.nodes:
            if node.op not in _LEGAL:
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for arg in node._input_nodes:
                if arg.graph is not self:
                    raise RuntimeError(
                        f"Argument '{arg}' of Node '{node}' does not belong to this Graph, but was used as an "
                        f"argument! If you are copying nodes from another graph, make sure to use ``arg_transform`` on "
                        f"node_copy() to remap values\n{self}"
                    )
                if arg not in seen:
                    raise RuntimeError(
                        f"Argument '{arg}' of Node '{node}' was used before it has been defined! Please check that "
                        f"Nodes in the graph are topologically ordered\n{self}"
                    )
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                self._check_target(node)

    def _check_target(self, node: Node) -> None:
        fits, kind = (
            (callable(node.target), "Callable") if node.op == "call_function" else (isinstance(node.target, str), "str")
        )
        if not fits:
            raise ValueError(
                f"Node {node} target {node.target} has type {oneflow.typename(node.target)} but a {kind} is expected"
            )
        if node.op not in ("get_attr", "call_module"):
            return
        value, path = self.owning_module, str(node.target).split(".")
        for i, name in enumerate(path):
            where = ".".join(path[:i])
            value = getattr(value, name, None)
            if value is None:
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute {name} of {where}"
                )
            if node.op == "call_module" and not isinstance(value, oneflow.nn.Module):
                raise RuntimeError(
                    f"Node {node} target {node.target} {name} of {where} does not reference an nn.Module"
                )

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove nodes that nobody uses and that do nothing besides; returns whether there were any.

        Args:
            is_impure_node: whether a node must stay; :meth:`Node.is_impure` by default.
        """
        self.lint()
        keep = is_impure_node or Node.is_impure
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not keep(node):
                self.erase_node(node)
                changed = True
        for node in self.nodes:
            inner = _module_graph(self.owning_module, node)
            if inner is not None:
                changed |= inner.eliminate_dead_code(is_impure_node)
        return changed


def _module_graph(root: Any, node: Node) -> Graph | None:
    """The graph of the traced module that a node calls."""
    if root is None or node.op != "call_module":
        return None
    from oneflow.fx.graph_module import GraphModule

    module = root.get_submodule(node.target)
    return module.graph if isinstance(module, GraphModule) else None


def _has(module: Any, path: str) -> bool:
    for name in path.split("."):
        if not hasattr(module, name):
            return False
        module = getattr(module, name)
    return True


class _entered:
    """A context that has been entered already."""

    def __init__(self, context: Any) -> None:
        self.context: contextlib.AbstractContextManager[Any] = context
        context.__enter__()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        self.context.__exit__(*error)
