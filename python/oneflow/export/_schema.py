"""The JSON of an exported program: what PyTorch's ``torch._export.serde`` writes, in its names and numbers.

Source: the schema as PyTorch 2.15's archives show it (major version 8). What an argument is stands in its key:
``as_int``, ``as_tensor`` and so on.
"""

from __future__ import annotations

import ast
import collections
import json
import keyword
import math
import operator
import re
from collections.abc import Callable, Container
from fractions import Fraction
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._ops import only_computes
from oneflow._trace.named_sizes import Size
from oneflow._trace.size_guards import Guard
from oneflow.export import graph_signature as sig
from oneflow.export._control import CONTROL
from oneflow.export.exported_program import NUMBERS, ExportedProgram, ModuleCallEntry, ModuleCallSignature, Range
from oneflow.fx.graph import Graph
from oneflow.fx.graph_module import GraphModule
from oneflow.fx.node import Node
from oneflow.utils import _pytree

_DTYPES = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    9: "complex32",
    10: "complex64",
    11: "complex128",
    12: "bool",
    13: "bfloat16",
    28: "uint16",
    29: "float8_e4m3fn",
    30: "float8_e5m2",
    31: "float8_e4m3fnuz",
    32: "float8_e5m2fnuz",
    33: "float8_e8m0fnu",
    34: "uint32",
    35: "uint64",
}
_NUMBER_OF = {name: number for number, name in _DTYPES.items()}
_STRIDED = 7
_FORMATS = {1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d", 4: "preserve_format"}
_MAJOR = 8


def _identifier(name: Any, what: str) -> str:
    """A name that becomes part of Python code."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{what} is named {name!r}, which is not an identifier")
    return name


def dtype_of(number: int) -> Any:
    """The dtype of a number in an archive."""
    if number not in _DTYPES:
        raise ValueError(f"unknown dtype {number}")
    return getattr(oneflow, _DTYPES[number])


# ---- tensors


def meta_to_json(tensor: Tensor, requires_grad: bool) -> dict[str, Any]:
    """The meta of a contiguous tensor."""
    return {
        "dtype": _NUMBER_OF[str(tensor.dtype).partition(".")[2]],
        "sizes": [{"as_int": size} for size in tensor.shape],
        "requires_grad": requires_grad,
        "device": {"type": "cpu", "index": None},
        "strides": [{"as_int": stride} for stride in tensor.stride()],
        "storage_offset": {"as_int": 0},
        "layout": _STRIDED,
    }


def tensor_of(data: bytes, meta: dict[str, Any]) -> Tensor:
    """The tensor of stored bytes; its sizes and strides lie inside them."""
    if meta["layout"] != _STRIDED:
        raise ValueError("it is not strided")
    dtype = dtype_of(meta["dtype"])
    sizes, strides = ([int(v["as_int"]) for v in meta[key]] for key in ("sizes", "strides"))
    offset = int(meta["storage_offset"]["as_int"])
    if len(sizes) != len(strides) or min([offset, *sizes, *strides], default=0) < 0:
        raise ValueError(f"sizes {sizes}, strides {strides} and offset {offset} are not those of a tensor")
    if 0 in sizes:
        return oneflow.empty_strided(sizes, strides, dtype=dtype)
    last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    if (last + 1) * dtype.itemsize > len(data):
        raise ValueError(f"sizes {sizes} and strides {strides} of {dtype} need more than {len(data)} bytes")
    flat = oneflow.frombuffer(bytearray(data[: len(data) // dtype.itemsize * dtype.itemsize]), dtype=dtype)
    return flat.as_strided(sizes, strides, offset)


# ---- how arguments are nested


_NESTS: dict[str, type] = {
    "builtins.tuple": tuple,
    "builtins.list": list,
    "builtins.dict": dict,
    "collections.OrderedDict": collections.OrderedDict,
}


def spec_to_text(spec: Any) -> str:
    """How a value is nested, as text."""
    return json.dumps([1, _spec_to_json(spec)])


def _spec_to_json(spec: Any) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    if issubclass(spec.type, tuple) and spec.type.__module__.partition(".")[0] == "oneflow":
        # A result with named fields comes back as a tuple.
        spec = _pytree.TreeSpec(tuple, None, spec.children_specs)
    name = next((name for name, cls in _NESTS.items() if cls is spec.type), None)
    if name is None:
        raise NotImplementedError(f"export.save: arguments or results with a {spec.type.__name__} are not saved")
    children = [_spec_to_json(child) for child in spec.children_specs]
    return {"type": name, "context": json.dumps(spec.context), "children_spec": children}


def spec_of_text(text: str) -> Any:
    """How a value is nested, from text."""
    version, described = json.loads(text)
    if version != 1:
        raise ValueError(f"nests are described in version {version}, not 1")
    return _spec_of_json(described)


def _spec_of_json(described: dict[str, Any]) -> Any:
    name = described["type"]
    if name is None:
        return _pytree.LeafSpec()
    children = [_spec_of_json(child) for child in described["children_spec"]]
    cls = tuple if name.startswith("torch.return_types.") else _NESTS.get(name)
    if cls is tuple:
        return _pytree.TreeSpec(tuple, None, children)
    if cls is None:
        cls = next((c for c in _pytree.SUPPORTED_NODES if f"{c.__module__}.{c.__qualname__}" == name), None)
    if cls is None:
        raise ValueError(f"arguments or results have a {name}, which is not known here")
    return _pytree.TreeSpec(cls, json.loads(described["context"]), children)


# ---- sizes


def size_of_json(described: dict[str, Any]) -> Any:
    """A size: an integer, the name of an open dimension, a polynomial of one, or None for anything else."""
    if "as_int" in described:
        return int(described["as_int"])
    try:
        terms = _terms(ast.parse(described["as_expr"]["expr_str"], mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        return None
    if len(terms) == 1:
        ((names, factor),) = terms.items()
        if not names:
            return int(factor)
        if factor == 1 and len(names) == 1:
            return names[0]
    size = Size(terms)
    try:
        size.root()
    except ValueError:
        return None
    return size


def _terms(node: ast.expr) -> dict[tuple[str, ...], Fraction]:
    """The polynomial of an expression in SymPy's constructors."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return {(): Fraction(node.value)}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "Symbol" and isinstance(node.args[0], ast.Constant):
            return {(str(node.args[0].value),): Fraction(1)}
        if node.func.id == "Integer":
            return _terms(node.args[0])
        parts = [_terms(arg) for arg in node.args]
        if node.func.id == "Add":
            total: dict[tuple[str, ...], Fraction] = {}
            for part in parts:
                for names, factor in part.items():
                    total[names] = total.get(names, Fraction(0)) + factor
            return total
        if node.func.id == "Mul":
            product: dict[tuple[str, ...], Fraction] = {(): Fraction(1)}
            for part in parts:
                product = {tuple(sorted((*a, *b))): f * g for a, f in product.items() for b, g in part.items()}
            return product
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return {names: -factor for names, factor in _terms(node.operand).items()}
    raise ValueError("not a polynomial")


def _size_to_json(size: Any) -> dict[str, Any]:
    if isinstance(size, int):
        return {"as_int": size}
    terms = {(size,): Fraction(1)} if isinstance(size, str) else size.terms
    parts = []
    for names, factor in terms.items():
        factors = [f"Symbol('{n}', positive=True, integer=True)" for n in names]
        if factor != 1 or not factors:
            if factor.denominator != 1:
                return {"as_expr": {"expr_str": str(size), "hint": None}}
            factors.insert(0, f"Integer({factor})")
        parts.append(factors[0] if len(factors) == 1 else f"Mul({', '.join(factors)})")
    return {"as_expr": {"expr_str": parts[0] if len(parts) == 1 else f"Add({', '.join(parts)})", "hint": None}}


# ---- arguments


def _argument_to_json(value: Any) -> dict[str, Any]:
    if isinstance(value, Node) and value.op == "get_attr":
        graph = value.meta["graph"]
        inputs = [{"as_tensor": {"name": node.name}} for node in graph.find_nodes(op="placeholder")]
        return {"as_graph": {"name": value.target, "graph": _graph_to_json(graph, inputs)}}
    if isinstance(value, Node):
        return {"as_sym_int": {"as_name": value.name}} if _is_size(value) else {"as_tensor": {"name": value.name}}
    if value is None:
        return {"as_none": True}
    for kind, key in ((bool, "as_bool"), (int, "as_int"), (float, "as_float"), (str, "as_string")):
        if isinstance(value, kind):
            return {key: value}
    if isinstance(value, complex):
        return {"as_complex": {"real": value.real, "imag": value.imag}}
    if isinstance(value, oneflow.dtype):
        return {"as_scalar_type": _NUMBER_OF[str(value).partition(".")[2]]}
    if isinstance(value, oneflow.device):
        described: dict[str, Any] = {"type": value.type, "index": value.index}
        return {"as_device": described}
    if isinstance(value, oneflow.memory_format):
        return {"as_memory_format": next(n for n, name in _FORMATS.items() if getattr(oneflow, name) == value)}
    if isinstance(value, (list, tuple)):
        return _list_to_json(list(value))
    raise NotImplementedError(f"export.save: an argument of type {type(value).__name__} is not saved")


def _list_to_json(values: list[Any]) -> dict[str, Any]:
    nodes = [v for v in values if isinstance(v, Node)]
    if nodes and all(_is_size(n) for n in nodes):
        return {"as_sym_ints": [{"as_name": v.name} if isinstance(v, Node) else {"as_int": v} for v in values]}
    if nodes and None in values:
        tensors: list[dict[str, Any]] = [
            {"as_none": True} if v is None else {"as_tensor": {"name": v.name}} for v in values
        ]
        return {"as_optional_tensors": tensors}
    if nodes:
        return {"as_tensors": [{"name": v.name} for v in values]}
    for kind, key in ((bool, "as_bools"), (int, "as_ints"), (float, "as_floats"), (str, "as_strings")):
        if all(isinstance(v, kind) for v in values) and (
            kind is not int or not any(isinstance(v, bool) for v in values)
        ):
            return {key if values else "as_ints": values}
    raise NotImplementedError(f"export.save: a list such as {values!r} is not saved")


def _is_size(node: Any) -> bool:
    """Whether a node is an integer."""
    if node.target is oneflow.ops.aten.sym_size.int:
        return True
    return node.op == "call_function" and node.target in NUMBERS.values() and node.target is not operator.getitem


class _Arguments:
    """Arguments of an archive as Python values; tensors, integers and subgraphs of the program are nodes."""

    def __init__(self, nodes: dict[str, Any], graph: Graph | None = None) -> None:
        self.nodes, self.graph = nodes, graph
        self.subgraphs: dict[str, GraphModule] = {}

    def of(self, described: dict[str, Any]) -> Any:
        ((kind, value),) = described.items()
        read = getattr(self, kind, None)
        if not kind.startswith("as_") or read is None:
            raise ValueError(f"arguments of kind {kind!r} are not provided")
        return read(value)

    def as_none(self, value: Any) -> None:
        return None

    def _plain(self, value: Any) -> Any:
        return value

    as_int = as_ints = as_bool = as_bools = as_string = as_strings = as_int_lists = _plain

    def as_float(self, value: Any) -> float:
        # JSON has no infinities: they are texts.
        return float(value)

    def as_floats(self, values: Any) -> list[float]:
        return [float(v) for v in values]

    def as_float_lists(self, values: Any) -> list[list[float]]:
        return [self.as_floats(v) for v in values]

    def as_tensor(self, value: Any) -> Any:
        return self.nodes[value["name"]]

    def as_tensors(self, values: Any) -> list[Any]:
        return [self.nodes[v["name"]] for v in values]

    def as_nested_tensors(self, values: Any) -> list[list[Any]]:
        return [self.as_tensors(v) for v in values]

    def as_optional_tensor(self, value: Any) -> Any:
        return self.of(value)

    def as_optional_tensors(self, values: Any) -> list[Any]:
        return [self.of(v) for v in values]

    def as_sym_int(self, value: Any) -> Any:
        if "as_name" in value:
            return self.nodes[value["as_name"]]
        return next(iter(value.values()))

    as_sym_float = as_sym_bool = as_sym_int

    def as_sym_ints(self, values: Any) -> list[Any]:
        return [self.as_sym_int(v) for v in values]

    as_sym_floats = as_sym_bools = as_sym_ints

    def as_complex(self, value: Any) -> complex:
        return complex(value["real"], value["imag"])

    def as_graph(self, value: Any) -> Any:
        assert self.graph is not None
        name = _identifier(value["name"], "a subgraph")
        if name in self.subgraphs:
            raise ValueError(f"two subgraphs are named {name!r}")
        self.subgraphs[name] = _subgraph(value["graph"])
        node = self.graph.create_node("get_attr", name, name=name)
        node.meta["graph"] = self.subgraphs[name].graph
        return node

    def as_scalar_type(self, value: Any) -> Any:
        return dtype_of(value)

    def as_layout(self, value: Any) -> Any:
        if value != _STRIDED:
            raise ValueError(f"layout {value} is not provided")
        return oneflow.strided

    def as_memory_format(self, value: Any) -> Any:
        return getattr(oneflow, _FORMATS[value])

    def as_device(self, value: Any) -> Any:
        return oneflow.device(value["type"] if value["index"] is None else f"{value['type']}:{value['index']}")


def _target_to_text(target: Any) -> str:
    if target in CONTROL.values():
        return f"torch.ops.higher_order.{target.__name__}"
    if getattr(target, "__module__", "").startswith("oneflow.ops."):
        return f"{target.__module__}.{target.__name__}"
    return f"_operator.{target.__name__}"


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f"_operator.{name}": function for name, function in NUMBERS.items()},
    **{f"math.{name}": getattr(math, name) for name in ("ceil", "floor", "trunc", "sqrt", "log2")},
    "torch.sym_max": max,
    "torch.sym_min": min,
    "torch.sym_float": float,
    "torch.sym_int": int,
    "torch.sym_not": operator.not_,
    "torch.sym_ite": lambda condition, yes, no: yes if condition else no,
    "torch._sym_sqrt": math.sqrt,
    **CONTROL,
}


def _target_of_text(text: str) -> Any:
    if text in _FUNCTIONS:
        return _FUNCTIONS[text]
    parts = text.split(".")
    if len(parts) != 5 or parts[0] not in ("torch", "oneflow") or parts[1] != "ops" or not all(parts):
        raise ValueError(f"the program calls {text}, which is not an op")
    _, _, namespace, name, overload = parts
    try:
        op = getattr(getattr(oneflow.ops, namespace), name)
    except AttributeError:
        raise ValueError(f"the program calls {text}, which this package does not have") from None
    if not only_computes(op):
        raise ValueError(f"the program calls {text}, which is not an op")
    return getattr(op, _identifier(overload, "an overload"))


# ---- programs


_INPUTS = {
    "parameter": (sig.InputKind.PARAMETER, "parameter_name"),
    "buffer": (sig.InputKind.BUFFER, "buffer_name"),
    "tensor_constant": (sig.InputKind.CONSTANT_TENSOR, "tensor_constant_name"),
}
_OUTPUTS = {
    "buffer_mutation": (sig.OutputKind.BUFFER_MUTATION, "buffer_name"),
    "parameter_mutation": (sig.OutputKind.PARAMETER_MUTATION, "parameter_name"),
    "user_input_mutation": (sig.OutputKind.USER_INPUT_MUTATION, "user_input_name"),
}


def _graph_to_json(given: Graph, inputs: list[dict[str, Any]]) -> dict[str, Any]:
    nodes, values, integers = [], {}, {}
    for node in given.nodes:
        if node.op == "placeholder" or (node.op == "call_function" and not _is_size(node)):
            meta = node.meta.get("val")
            if isinstance(meta, Tensor):
                described = meta_to_json(meta, False)
                described["sizes"] = [_size_to_json(s) for s in node.meta.get("sizes", meta.shape)]
                values[node.name] = described
        elif node.op == "call_function":
            integers[node.name] = {"as_int": 0}
        if node.op == "call_function":
            nodes.append(_node_to_json(node))
    return {
        "inputs": inputs,
        "outputs": [_argument_to_json(v) for v in given.output_node().args[0]],
        "nodes": nodes,
        "tensor_values": values,
        "sym_int_values": integers,
        "sym_bool_values": {},
        "sym_float_values": {},
        "is_single_tensor_return": False,
        "custom_obj_values": {},
    }


def program_to_json(ep: ExportedProgram) -> dict[str, Any]:
    """A program without its tensors, as JSON."""
    graph = _graph_to_json(ep.graph, [_input_to_json(spec)[1] for spec in ep.graph_signature.input_specs])
    returned = ep.graph.output_node().args[0]
    signature = {
        "input_specs": [_input_to_json(spec)[0] for spec in ep.graph_signature.input_specs],
        "output_specs": [_output_to_json(s, v) for s, v in zip(ep.graph_signature.output_specs, returned, strict=True)],
    }
    ranges = {n: {"min_val": r.lower, "max_val": r.upper} for n, r in ep.range_constraints.items()}
    return {
        "graph_module": {
            "graph": graph,
            "signature": signature,
            "module_call_graph": [_entry_to_json(entry) for entry in ep.module_call_graph],
            # PyTorch keeps texts of any kind here; ours are the guards.
            "metadata": {_GUARDS: json.dumps([_guard_to_json(g) for g in ep.guards])} if ep.guards else {},
            "treespec_namedtuple_fields": {},
        },
        "opset_version": {"oneflow": 1},
        "range_constraints": ranges,
        "schema_version": {"major": _MAJOR, "minor": 0},
        "verifiers": [],
        "torch_version": f"oneflow {oneflow.__version__}",
        "guards_code": [],
    }


_GUARDS = "oneflow_guards"
_FACTOR = re.compile(r"-?\d{1,40}(/\d{1,40})?")


def _guard_to_json(guard: Guard) -> list[Any]:
    def terms(size: int | Size) -> list[Any]:
        found = {(): Fraction(size)} if isinstance(size, int) else size.terms
        return [[list(names), str(factor)] for names, factor in found.items()]

    return [guard.asked, terms(guard.a), terms(guard.b), guard.answer, guard.place]


def _guards_of_json(text: Any, names: Container[str]) -> list[Guard]:
    def size(terms: Any) -> int | Size:
        if len(terms) > 256 or any(len(of) > 16 or not _FACTOR.fullmatch(factor) for of, factor in terms):
            raise ValueError("a size in it is no sum of products")
        found = Size({tuple(map(str, of)): Fraction(factor) for of, factor in terms})
        if any(name not in names for term in found.terms for name in term):
            raise ValueError("it is about a dimension that the program does not have")
        return int(found.terms.get((), 0)) if not found.terms.keys() - {()} else found

    try:
        guards = [
            Guard(asked, size(a), size(b), int(answer), str(place)) for asked, a, b, answer, place in json.loads(text)
        ]
    except (TypeError, ValueError, ZeroDivisionError, RecursionError, OverflowError) as error:
        raise ValueError(f"a guard of the program cannot be read: {error}") from error
    for guard in guards:
        guard.check()
    return guards


def _place_to_json(node: Any) -> dict[str, str]:
    """Where a node comes from: its line, and the modules around it as ``key,path,type;...``."""
    described = {"stack_trace": node.meta["stack_trace"]} if node.meta.get("stack_trace") else {}
    if modules := node.meta.get("nn_module_stack"):
        described["nn_module_stack"] = ";".join(f"{key},{path},{kind}" for key, (path, kind) in modules.items())
    return described


def _note_place(node: Any, described: dict[str, Any]) -> None:
    if described.get("stack_trace"):
        node.meta["stack_trace"] = described["stack_trace"]
    if text := described.get("nn_module_stack"):
        modules = (entry.split(",", 2) for entry in text.split(";"))
        node.meta["nn_module_stack"] = {key: (path, kind) for key, path, kind in modules}


def _node_to_json(node: Any) -> dict[str, Any]:
    inputs = [{"name": "", "arg": _argument_to_json(arg), "kind": 1} for arg in node.args]
    inputs += [{"name": name, "arg": _argument_to_json(arg), "kind": 2} for name, arg in node.kwargs.items()]
    return {
        "target": _target_to_text(node.target),
        "inputs": inputs,
        "outputs": [_argument_to_json(node)],
        "metadata": _place_to_json(node),
        "is_hop_single_tensor_return": None,
        "name": node.name,
    }


def _input_to_json(spec: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    tensor = {"as_tensor": {"name": spec.arg.name}}
    for key, (kind, field) in _INPUTS.items():
        if spec.kind is kind:
            described = {"arg": {"name": spec.arg.name}, field: spec.target}
            if spec.persistent is not None:
                described["persistent"] = spec.persistent
            return {key: described}, tensor
    if isinstance(spec.arg, sig.ConstantArgument):
        constant = _argument_to_json(spec.arg.value)
        return {"constant_input": {"name": spec.arg.name, "value": constant}}, constant
    return {"user_input": {"arg": tensor}}, tensor


def _output_to_json(spec: Any, value: Any) -> dict[str, Any]:
    for key, (kind, field) in _OUTPUTS.items():
        if spec.kind is kind:
            return {key: {"arg": {"name": spec.arg.name}, field: spec.target}}
    return {"user_output": {"arg": _argument_to_json(value)}}


def _entry_to_json(entry: ModuleCallEntry) -> dict[str, Any]:
    if entry.signature is None:
        return {"fqn": entry.fqn, "signature": None}
    whole = entry.signature
    return {
        "fqn": entry.fqn,
        "signature": {
            "inputs": [],
            "outputs": [],
            "in_spec": spec_to_text(whole.in_spec),
            "out_spec": spec_to_text(whole.out_spec),
            "forward_arg_names": whole.forward_arg_names,
        },
    }


def program_of_json(
    described: dict[str, Any], state: dict[str, Any], constants: dict[str, Any], example: Any
) -> ExportedProgram:
    """The program that its JSON and its tensors describe."""
    version = described["schema_version"]["major"]
    if version != _MAJOR:
        raise ValueError(f"the program is written in version {version} of the schema; {_MAJOR} is read")
    module = described["graph_module"]
    described_graph, signature = module["graph"], module["signature"]
    graph, nodes = Graph(), {}
    inputs = [_input_of_json(item) for item in signature["input_specs"]]
    for spec in inputs:
        _identifier(spec.arg.name, "an input")
        node = nodes[spec.arg.name] = graph.create_node("placeholder", spec.arg.name, name=spec.arg.name)
        _note(node, described_graph["tensor_values"].get(spec.arg.name))
        spec.arg.name = node.name
    arguments = _Arguments(nodes, graph)
    returned = _add_nodes(graph, described_graph, arguments)
    if clash := arguments.subgraphs.keys() & {name.partition(".")[0] for name in (*state, *constants)}:
        raise ValueError(f"a subgraph and a tensor are named {min(clash)!r}")
    outputs = [
        _output_of_json(item, value, nodes) for item, value in zip(signature["output_specs"], returned, strict=True)
    ]
    entries = [_entry_of_json(item) for item in module["module_call_graph"]]
    if not entries or entries[0].signature is None:
        raise ValueError("the program does not say how it is called")
    ranges = {}
    for name, item in described["range_constraints"].items():
        low, high = item["min_val"], item["max_val"]
        ranges[name] = Range(int(low or 0), None if high is None or float(high) == math.inf else int(high))
    whole = sig.ExportGraphSignature(inputs, outputs)
    named = {name for node in nodes.values() for size in node.meta.get("sizes", ()) for name in _names_in(size)}
    guards = _guards_of_json((module.get("metadata") or {}).get(_GUARDS, "[]"), named)
    subgraphs = dict(arguments.subgraphs)
    return ExportedProgram(subgraphs, graph, whole, state, ranges, entries, example, constants, guards=guards)


def _names_in(size: Any) -> set[str]:
    if isinstance(size, Size):
        return {name for term in size.terms for name in term}
    return {size} if isinstance(size, str) else set()


def _add_nodes(graph: Graph, described: dict[str, Any], arguments: _Arguments) -> list[Any]:
    """Add the nodes after the placeholders; return the results."""
    for item in described["nodes"]:
        _add_node(graph, item, arguments, described["tensor_values"])
    returned = [arguments.of(item) for item in described["outputs"]]
    graph.output(tuple(returned))
    graph.lint()
    return returned


def _subgraph(described: dict[str, Any]) -> GraphModule:
    """A branch or the body of a loop, which returns a tuple."""
    graph, nodes = Graph(), {}
    for item in described["inputs"]:
        ((kind, value),) = item.items()
        name = _identifier(value.get("name") or value.get("as_name"), "an input")
        node = nodes[name] = graph.create_node("placeholder", name, name=name)
        if kind == "as_tensor":
            _note(node, described["tensor_values"].get(name))
    arguments = _Arguments(nodes, graph)
    _add_nodes(graph, described, arguments)
    return GraphModule(dict(arguments.subgraphs), graph)


def _note(node: Any, meta: Any) -> None:
    if meta is None:
        return
    sizes = [size_of_json(size) for size in meta["sizes"]]
    node.meta["sizes"] = sizes
    known = [size if isinstance(size, int) else 1 for size in sizes]
    node.meta["val"] = oneflow.empty(known, dtype=dtype_of(meta["dtype"]), device="meta")


def _add_node(graph: Graph, item: dict[str, Any], arguments: _Arguments, values: dict[str, Any]) -> None:
    target = _target_of_text(item["target"])
    args, kwargs = [], {}
    for given in item["inputs"]:
        value = arguments.of(given["arg"])
        if given.get("kind") == 2:
            kwargs[_identifier(given["name"], "an argument")] = value
        else:
            args.append(value)
    names: list[str | None] = []
    is_list = False
    for output in item["outputs"]:
        ((kind, value),) = output.items()
        if kind == "as_tensors":
            is_list = True
            names += [v["name"] for v in value]
        elif kind == "as_none":
            names.append(None)
        else:
            names.append(value.get("name") or value.get("as_name"))
    is_one = len(names) == 1 and not is_list
    name = names[0] if is_one else item.get("name")
    node = graph.create_node("call_function", target, tuple(args), kwargs, name=name or target.__name__)
    _note_place(node, item.get("metadata", {}))
    for i, made in enumerate(names):
        if made is None:
            continue
        part = node if is_one else graph.create_node("call_function", operator.getitem, (node, i), name=made)
        arguments.nodes[made] = part
        _note(part, values.get(made))


def _input_of_json(item: dict[str, Any]) -> sig.InputSpec:
    ((key, value),) = item.items()
    if key in _INPUTS:
        kind, field = _INPUTS[key]
        persistent = value["persistent"] if key == "buffer" else None
        return sig.InputSpec(kind, sig.TensorArgument(value["arg"]["name"]), value[field], persistent)
    if key == "constant_input":
        constant = _Arguments({}).of(value["value"])
        return sig.InputSpec(sig.InputKind.USER_INPUT, sig.ConstantArgument(value["name"], constant), None)
    if key == "user_input" and "as_tensor" in value["arg"]:
        return sig.InputSpec(sig.InputKind.USER_INPUT, sig.TensorArgument(value["arg"]["as_tensor"]["name"]), None)
    raise ValueError(f"inputs of kind {key!r} are not provided")


def _output_of_json(item: dict[str, Any], value: Any, nodes: dict[str, Any]) -> sig.OutputSpec:
    ((key, described),) = item.items()
    if key in _OUTPUTS:
        kind, field = _OUTPUTS[key]
        target = described[field]
        if kind is sig.OutputKind.USER_INPUT_MUTATION:
            target = nodes[target].name
        return sig.OutputSpec(kind, sig.TensorArgument(value.name), target)
    if key != "user_output":
        raise ValueError(f"outputs of kind {key!r} are not provided")
    if not isinstance(value, Node):
        return sig.OutputSpec(sig.OutputKind.USER_OUTPUT, sig.ConstantArgument("", value), None)
    is_size = "as_sym_int" in described["arg"]
    arg: Any = sig.SymIntArgument(value.name) if is_size else sig.TensorArgument(value.name)
    return sig.OutputSpec(sig.OutputKind.USER_OUTPUT, arg, None)


def _entry_of_json(item: dict[str, Any]) -> ModuleCallEntry:
    whole = item["signature"]
    if whole is None:
        return ModuleCallEntry(item["fqn"])
    in_spec, out_spec = spec_of_text(whole["in_spec"]), spec_of_text(whole["out_spec"])
    names = whole.get("forward_arg_names")
    if names is None and not item["fqn"]:
        positional, named = in_spec.children_specs
        names = [f"arg_{i}" for i in range(len(positional.children_specs))] + list(named.context or ())
    names = None if names is None else [_identifier(name, "an argument") for name in names]
    return ModuleCallEntry(item["fqn"], ModuleCallSignature([], [], in_spec, out_spec, names))
