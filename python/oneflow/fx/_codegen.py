"""Graphs as Python code: the text of ``forward`` and the globals that it reads."""

from __future__ import annotations

import contextlib
import enum
import json
import keyword
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import oneflow
from oneflow import Tensor
from oneflow.fx import _targets
from oneflow.fx._namespace import Namespace, standard_globals
from oneflow.fx.node import Node
from oneflow.utils import _pytree

__all__ = ["CodeGen", "PythonCode"]

# How calls of the module `operator` are written.
_BINARY = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "gt": ">",
    "le": "<=",
    "ge": ">=",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "lshift": "<<",
    "rshift": ">>",
    "and_": "&",
    "or_": "|",
    "xor": "^",
    "matmul": "@",
}
MAGIC = {
    **{name: f"{{}} {sign} {{}}" for name, sign in _BINARY.items()},
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    "getitem": "{}[{}]",
}
_INPLACE = {
    **{f"i{name}": f"{{}} {sign}= {{}}" for name, sign in _BINARY.items() if name not in ("and_", "or_")},
    "iand": "{} &= {}",
    "ior": "{} |= {}",
}
_ORIGINS = {list: "List", dict: "Dict", set: "Set", frozenset: "FrozenSet", tuple: "Tuple"}
_SHORT = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "bool": "b8",
    "complex64": "c64",
    "complex128": "c128",
    "complex32": "c32",
    **{f"{kind}int{bits}": f"{kind[:1] or 'i'}{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)},
}


@dataclass
class PythonCode:
    """Generated code: its text, and the values of the global names it uses."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = field(default=None)
    _prologue_start: int = 0


def attribute(base: str, path: str) -> str:
    """The expression that reads a dotted path from ``base``; names that are no identifiers go through ``getattr``."""
    for part in path.split("."):
        plain = part.isidentifier() and not keyword.iskeyword(part)
        # Quoted as Python quotes it: the names of a checkpoint's parameters may be any text.
        base = f"{base}.{part}" if plain else f"getattr({base}, {json.dumps(part)})"
    return base


class CodeGen:
    """Writes a graph as a function. Subclasses change its signature, its return or its globals.

    Example::

        >>> graph = oneflow.fx.symbolic_trace(lambda x: x + 1).graph
        >>> isinstance(graph._codegen, oneflow.fx.graph.CodeGen)
        True
    """

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **options: Any) -> str:
        """The line that begins the function; ``free_vars`` are its parameters."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any, *, repr_fn: Callable[[Any], str] = repr, **options: Any) -> str:
        """The return statement, without its indentation."""
        return f"return {repr_fn(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders, from the arguments of the function."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Return the function's result, from the value of the output node."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Further global names that the code reads."""
        return []

    def _gen_python_code(
        self, nodes: Iterable[Node], root_module: str, namespace: Namespace, *, verbose: bool = False, **options: Any
    ) -> PythonCode:
        return _Writer(self, list(nodes), root_module, namespace, verbose, options).written()


class _PyTreeInfo(NamedTuple):
    orig_args: list[str]
    in_spec: Any
    out_spec: Any


class _PyTreeCodeGen(CodeGen):
    """Code whose function takes nested arguments, of which each leaf is a placeholder."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        return _pytree.tree_leaves(inputs)

    def process_outputs(self, out: Any) -> Any:
        if not isinstance(out, (list, tuple)):
            out = [out]
        return _pytree.tree_unflatten(out, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **options: Any) -> str:
        names = self.pytree_info.orig_args
        has_self = bool(names) and names[0] == "self"
        if has_self:
            free_vars.insert(0, "self")
        line = super().gen_fn_def(list(names), maybe_return_annotation)
        if free_vars:
            bare = [name.split(":")[0].split("=")[0].split("#")[0].strip() for name in free_vars]
            given = ", ".join(name for name in names if not has_self or name != "self")
            taken = ", ".join(name for name in bare if not has_self or name != "self")
            line += f"\n    {taken}, = fx_pytree.tree_flatten_spec([{given}], self._in_spec)"
        return line

    def generate_output(self, output_args: Any, *, repr_fn: Callable[[Any], str] = repr, **options: Any) -> str:
        if self.pytree_info.out_spec is not None:
            if not isinstance(output_args, (list, tuple)):
                output_args = [output_args]
            return f"return pytree.tree_unflatten({repr_fn(output_args)}, self._out_spec)"
        return super().generate_output(output_args, repr_fn=repr_fn)


class _Writer:
    """One run of a :class:`CodeGen` over the nodes of a graph."""

    def __init__(
        self,
        codegen: CodeGen,
        nodes: Sequence[Node],
        root: str,
        namespace: Namespace,
        verbose: bool,
        options: dict[str, Any],
    ) -> None:
        self.codegen, self.nodes, self.root, self.namespace = codegen, nodes, root, namespace
        self.verbose, self.options = verbose, options
        self.globals: dict[str, Any] = {}
        self.parameters: list[str] = []
        self.returns = ""
        self.wrapped: dict[str, None] = {}
        # The values that each node is the last to use.
        self.last_uses: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for user in reversed(nodes):
            for node in user._input_nodes:
                if node not in seen:
                    seen.add(node)
                    self.last_uses.setdefault(user, []).append(node)

    def written(self) -> PythonCode:
        for name, entry in standard_globals().items():
            self.global_name(name, entry.obj)
        body: list[str] = []
        summary = None
        for i, node in enumerate(self.nodes):
            if self.verbose and node.op not in ("placeholder", "output"):
                text = _summary(node)
                if text != summary:
                    body.append(f"\n# {text}\n")
                    summary = text
            body.append(f"# COUNTER: {i}\n")
            statement = self.statement(node)
            if statement:
                body.append(statement)
            body.append(self.released(node))
        if not body:
            body.append("pass\n")
        wraps = ""
        if self.wrapped:
            from oneflow.fx import wrap

            wrap_name = self.global_name("wrap", wrap)
            wraps = "\n".join(f'{wrap_name}("{name}")' for name in self.wrapped)
        if self.codegen._body_transformer:
            body = self.codegen._body_transformer(body)
        for name, value in self.codegen.additional_globals():
            self.global_name(name, value)
        head = self.codegen.gen_fn_def(self.parameters, self.returns)
        lines: list[str] = []
        numbers: dict[int, int | None] = {}
        current: int | None = None
        first = head.count("\n") + 1
        for line in "".join(body).split("\n"):
            if counter := re.search(r"# COUNTER: (\d+)", line):
                current = int(counter.group(1))
            else:
                numbers[len(lines) + first] = current
                lines.append(line)
        code = "\n".join("    " + line for line in "\n".join(lines).lstrip("\n").split("\n"))
        return PythonCode(f"\n{wraps}\n\n{head}\n{code}", self.globals, numbers, wraps.count("\n") + 4)

    # ---- names

    def global_name(self, hint: str, value: Any) -> str:
        if value is not oneflow.device and _targets.is_of_library(value):
            return _targets.qualified_name(value) if not isinstance(value, type) else _targets.type_name(value)
        name = self.namespace.create_name(hint, value)
        if name in self.globals and self.globals[name] is not value and self.globals[name] != value:
            raise AssertionError(f"Global name {name} already assigned to different object")
        self.globals.setdefault(name, value)
        return name

    def annotation(self, kind: Any) -> str:
        if kind == ():
            return "()"
        if isinstance(kind, types.UnionType):
            union: Any = typing.Union
            items = ",".join(map(self.annotation, typing.get_args(kind)))
            return f"{self.global_name(_targets.type_name(union), union)}[{items}]"
        origin = getattr(kind, "__origin__", None)
        if origin is not None:
            if isinstance(kind, typing._GenericAlias) and origin in _ORIGINS:  # type: ignore[attr-defined]
                origin = getattr(typing, _ORIGINS[origin])
            name = self.global_name(_targets.type_name(origin), origin)
            items = ",".join(map(self.annotation, typing.get_args(kind)))
            return f"{name}[{items}]" if items else name
        return self.global_name(_targets.type_name(kind), kind)

    def value(self, value: Any) -> str:
        if isinstance(value, Node):
            return repr(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            kind = type(value)
            return f"{self.global_name(_targets.qualified_name(kind), kind)}{tuple(value)!r}"
        if isinstance(value, enum.Enum):
            return f"{self.global_name(type(value).__name__, type(value))}.{value.name}"
        if isinstance(value, complex):
            parts = value.real, value.imag
            if 0.0 in parts or not all(map(math.isfinite, parts)):
                return f"complex({value.real!r}, {value.imag!r})"
            return repr(value)
        if isinstance(value, Tensor):
            dtype = str(value.dtype).rpartition(".")[2]
            return f"{_targets.library()}.Tensor(size={list(value.shape)}, dtype={dtype})"
        if isinstance(value, tuple):
            return f"({', '.join(map(self.value, value))}{',' if len(value) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.value, value))}]"
        if isinstance(value, slice):
            return f"slice({self.value(value.start)}, {self.value(value.stop)}, {self.value(value.step)})"
        return repr(value)

    # ---- statements

    def statement(self, node: Node) -> str:
        """Return the code that computes the node, without the end of its line."""
        kind = f" : {self.annotation(node.type)}" if node.type is not None else ""
        if self.verbose:
            kind = _shape(node) or kind
        name, target = f"{node!r}{kind}", node.target
        if node.op == "placeholder":
            default = f" = {self.value(node.args[0])}" if node.args else ""
            self.parameters.append(f"{target}{kind}{default}")
            bare = str(target).replace("*", "")
            return "" if bare == repr(node) else f"{node!r} = {bare}\n"
        if node.op == "call_method":
            arguments = self.arguments(node.args[1:], node.kwargs)
            return f"{name} = {attribute(self.value(node.args[0]), str(target))}({arguments})"
        if node.op == "call_module":
            return f"{name} = {attribute(self.root, str(target))}({self.arguments(node.args, node.kwargs)})"
        if node.op == "get_attr":
            return f"{name} = {attribute(self.root, str(target))}"
        if node.op == "output":
            if node.type is not None:
                self.returns = f" -> {self.annotation(node.type)}"
            return self.codegen.generate_output(node.args[0], repr_fn=self.value)
        if node.op == "call_function":
            return self.call(node, name, target)
        raise NotImplementedError(f"node: {node.op} {node.target}")

    def call(self, node: Node, name: str, target: Any) -> str:
        if getattr(target, "__module__", "") == "_operator":
            values = map(self.value, node.args)
            if target.__name__ in MAGIC:
                return f"{name} = {MAGIC[target.__name__].format(*values)}"
            if target.__name__ in _INPLACE:
                return f"{_INPLACE[target.__name__].format(*values)};  {name} = {self.value(node.args[0])}"
        function = self.global_name(_targets.qualified_name(target), target)
        if function == "getattr" and len(node.args) == 2:
            path = node.args[1]
            if isinstance(path, str) and path.isidentifier():
                return f"{name} = {attribute(self.value(node.args[0]), path)}"
        if node.meta.get("is_wrapped", False):
            self.wrapped[function] = None
        return f"{name} = {function}({self.arguments(node.args, node.kwargs)})"

    def arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        return ", ".join([*map(self.value, args), *(f"{key} = {self.value(item)}" for key, item in kwargs.items())])

    def released(self, node: Node) -> str:
        """Return the end of the line, which deletes values that are not used any more."""
        if node.op == "placeholder":
            return ""
        if node.op == "output":
            return "\n"
        dead = self.last_uses.get(node, [])
        if not node.users:
            dead = [*dead, node]
        return f";  {' = '.join([*map(repr, dead), 'None'])}\n" if dead else "\n"


def _summary(node: Node) -> str:
    """The line of the program that a node comes from."""
    found = re.findall(r'File "(.+)", line (\d+), in (.+)\n\s*(.+)', node.stack_trace or "")
    if not found:
        return "No stacktrace found for following nodes"
    file, line, function, code = found[-1]
    return f"File: {file}:{line} in {function}, code: {code}"


def _shape(node: Node) -> str:
    """Return the comment with dtype and sizes of a value, if a pass recorded them."""
    value: Any = node.meta.get("val", node.meta.get("tensor_meta", node.meta.get("example_value")))
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return ""
    name = str(value.dtype).rpartition(".")[2]
    return f': "{_SHORT.get(name, name)}[{", ".join(map(str, value.shape))}]"'


@contextlib.contextmanager
def transformed(codegen: CodeGen, before: Any) -> Any:
    """Puts the transformer of the code back at the end."""
    try:
        yield
    finally:
        codegen._body_transformer = before
