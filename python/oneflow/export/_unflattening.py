"""Exported programs as modules that are nested as the exported one was: each calls its children and the ops between."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from oneflow.export.exported_program import (
    ExportedModule,
    ExportedProgram,
    hold,
    module_of,
    unlifted,
    unlifted_graph,
)
from oneflow.fx.graph import Graph
from oneflow.fx.graph_module import GraphModule
from oneflow.nn import Module

__all__ = ["InterpreterModule", "UnflattenedModule", "unflatten"]


class InterpreterModule(GraphModule):
    """A module inside of an unflattened program: the ops of one module, and calls of its children."""


class UnflattenedModule(ExportedModule):
    """A program whose modules are nested as those of the exported module; :func:`unflatten` returns one.

    Its parameters and buffers have the names of the exported module's, and it takes the same arguments.

    Example::

        >>> net = oneflow.nn.Sequential(oneflow.nn.Linear(3, 2), oneflow.nn.ReLU())
        >>> again = oneflow.export.unflatten(oneflow.export.export(net, (oneflow.ones(1, 3),)))
        >>> [name for name, _ in again.named_parameters()]
        ['0.weight', '0.bias']
    """

    def train(self, mode: bool = True) -> Any:
        """Set the flag ``training``, which the program does not read."""
        return Module.train(self, mode)

    def eval(self) -> Any:
        """Clear the flag ``training``, which the program does not read."""
        return Module.train(self, False)

    def _made_of(self, program: ExportedProgram) -> Any:
        return unflatten(program)

    def __reduce__(self) -> Any:
        from oneflow.export._archive import to_bytes

        return _unflattened_bytes, (to_bytes(self.__dict__["_program"]),)


def _unflattened_bytes(data: bytes) -> Any:
    from oneflow.export._archive import of_bytes

    return unflatten(of_bytes(data))


class _Call:
    """One call of a module: the nodes and the calls inside of it, in order."""

    def __init__(self, key: str, path: str) -> None:
        self.key, self.path = key, path
        self.items: list[Any] = []

    def nodes(self) -> Iterator[Any]:
        for item in self.items:
            if isinstance(item, _Call):
                yield from item.nodes()
            else:
                yield item


def unflatten(module: ExportedProgram, flat_args_adapter: Callable[..., Any] | None = None) -> UnflattenedModule:
    """The program as a module with the children of the exported one.

    Children can be replaced, as in any module. A child that was called several times is one module where its calls do
    the same, and ``name@1`` and so on where they do not. Calls of a child that follow each other directly cannot be
    told apart in programs that this package exported: they are one call.

    Args:
        module: the program.
        flat_args_adapter: None.

    Raises:
        NotImplementedError: ``flat_args_adapter`` is given.

    Example::

        >>> net = oneflow.nn.Sequential(oneflow.nn.Linear(3, 2), oneflow.nn.ReLU())
        >>> program = oneflow.export.export(net, (oneflow.ones(1, 3),))
        >>> again = oneflow.export.unflatten(program)
        >>> [name for name, _ in again.named_children()]
        ['0', '1']
    """
    if flat_args_adapter is not None:
        raise NotImplementedError("export.unflatten: flat_args_adapter is not provided")
    if not isinstance(module, ExportedProgram):
        raise TypeError(f"export.unflatten: an ExportedProgram is expected, got {type(module).__name__}")
    flat = unlifted_graph(module)
    graph, children = _Builder(unlifted(module, True)).root(_calls(flat), flat)
    made: UnflattenedModule = module_of(UnflattenedModule, module, True, graph, children)
    # A tied tensor is one input of the program, and has its other names too.
    specs = {str(spec.target): spec for spec in module.graph_signature.input_specs}
    first = {id(value): specs[name] for name, value in module.state_dict.items() if name in specs}
    for name, value in module.state_dict.items():
        if name not in specs and id(value) in first:
            hold(made, name, value, first[id(value)])
    return made


def _calls(graph: Graph) -> _Call:
    """The calls of a program as a tree, by what each node says of the modules around it."""
    root = _Call("", "")
    stack = [root]
    where: list[tuple[str, str]] = []
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            continue
        if "nn_module_stack" in node.meta:
            where = [(key, path) for key, (path, _) in node.meta["nn_module_stack"].items() if path]
        elif not node.users:
            # The result, and what the program writes at its end. Other nodes belong to where they stand.
            where = []
        depth = 1
        for key, path in where:
            parent = stack[depth - 1].path
            if parent and not path.startswith(f"{parent}."):
                # A call of a module that is no child of its caller: its ops are the caller's.
                continue
            if depth < len(stack) and stack[depth].key == key:
                depth += 1
                continue
            del stack[depth:]
            call = _Call(key, path)
            stack[-1].items.append(call)
            stack.append(call)
            depth += 1
        del stack[depth:]
        stack[-1].items.append(node)
    return root


class _Builder:
    """Makes graphs of calls, and modules of them."""

    def __init__(self, flat: ExportedModule) -> None:
        self.flat = flat
        # By the path of a module: its forms, each with its text and its name.
        self.made: dict[str, list[tuple[str, str, InterpreterModule]]] = {}

    def root(self, call: _Call, flat: Graph) -> tuple[Graph, dict[str, Any]]:
        """The graph of the whole, and its children by path."""
        graph = Graph()
        env: dict[Any, Any] = {}
        for node in flat.find_nodes(op="placeholder"):
            env[node] = graph.node_copy(node, env.__getitem__)
        self._fill(graph, call, env)
        graph.set_codegen(flat._codegen)
        return graph, {name: module for forms in self.made.values() for _, name, module in forms}

    def _fill(self, graph: Graph, call: _Call, env: dict[Any, Any]) -> None:
        """Add what a call does; ``env`` has the nodes of what it is given."""
        prefix = f"{call.path}." if call.path else ""

        def resolve(node: Any) -> Any:
            if node not in env:
                env[node] = graph.create_node("get_attr", str(node.target).removeprefix(prefix), name=node.name)
            return env[node]

        for item in call.items:
            if not isinstance(item, _Call):
                env[item] = graph.node_copy(item, resolve)
                continue
            name, given, returned = self._module(item)
            made = graph.call_module(name.removeprefix(prefix), tuple(resolve(node) for node in given))
            if len(returned) == 1:
                env[returned[0]] = made
            else:
                for i, node in enumerate(returned):
                    env[node] = graph.call_function(operator.getitem, (made, i))

    def _module(self, call: _Call) -> tuple[str, list[Any], list[Any]]:
        """The name of the module that a call calls, what it is given and what it returns, as nodes of the program."""
        inside = dict.fromkeys(call.nodes())
        own = f"{call.path}."
        given = dict.fromkeys(
            n
            for node in inside
            for n in node.all_input_nodes
            if n not in inside and not (n.op == "get_attr" and str(n.target).startswith(own))
        )
        returned = [node for node in inside if any(user not in inside for user in node.users)]
        graph = Graph()
        env: dict[Any, Any] = {node: graph.placeholder(node.name) for node in given}
        self._fill(graph, call, env)
        results = [env[node] for node in returned]
        graph.output(results[0] if len(results) == 1 else tuple(results))
        text = _text(graph)
        forms = self.made.setdefault(call.path, [])
        for known, name, _ in forms:
            if known == text:
                return name, list(given), returned
        name = call.path if not forms else f"{call.path}@{len(forms)}"
        children = {str(n.target): self._held(own + str(n.target)) for n in graph.nodes if n.op in _HELD}
        module = InterpreterModule(children, graph, "InterpreterModule")
        self.made[call.path] = [*forms, (text, name, module)]
        return name, list(given), returned

    def _held(self, path: str) -> Any:
        for forms in self.made.values():
            for _, name, module in forms:
                if name == path:
                    return module
        value: Any = self.flat
        for part in path.split("."):
            value = getattr(value, part)
        return value


_HELD = ("get_attr", "call_module")


def _text(graph: Graph) -> str:
    """A graph with its nodes numbered, to compare with that of another call."""
    numbers = {node: f"%{i}" for i, node in enumerate(graph.nodes)}
    return "\n".join(
        f"{node.op} {node.target if node.op != 'placeholder' else ''} "
        + repr([(k, numbers.get(v, v)) for k, v in _leaves(node)])
        for node in graph.nodes
    )


def _leaves(node: Any) -> list[tuple[str, Any]]:
    from oneflow.utils import _pytree

    found, spec = _pytree.tree_flatten((tuple(node.args), dict(node.kwargs)))
    return [(str(spec), None), *(("", leaf) for leaf in found)]
