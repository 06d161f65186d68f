"""A module as the graph that TensorBoard draws: traced as an ``nn.Graph``, one node for each op, by module."""

from __future__ import annotations

import re
from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef

from oneflow import nn

# A line of a trace: results with their types, the op with its operands, and the module it comes from.
_LINE = re.compile(r"^  (?P<results>%\d+: .*?) = (?P<op>[\w.]+)(?P<rest>[ (].*?)(?:  # (?P<origin>.*))?$")
_VALUE = re.compile(r"%(\d+)")
_RESULT = re.compile(r"%(\d+): \w+\[([\d, ]*)\]")


def graph_of(model: Any, inputs: Any) -> GraphDef:
    """Return the graph of one call of ``model``. The call is executed, so it updates buffers as any call does."""
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)

    class Traced(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def build(self, *args: Any) -> Any:
            return self.model(*args)

    graph = Traced()
    graph(*inputs)
    nodes = _nodes(graph._latest("add_graph").compiled.text(True), type(model).__name__)
    return GraphDef(node=nodes, versions=VersionDef(producer=22))


def _nodes(text: str, root: str) -> list[NodeDef]:
    lines = text.split("\n")
    nodes, names = [], {}
    for number, shape in _RESULT.findall(lines[0]):
        names[number] = f"input/{number}"
        nodes.append(_node(names[number], "Input", [], [shape], ""))
    for line in lines[1:]:
        found = _LINE.match(line)
        if found:
            results = _RESULT.findall(found["results"])
            op, rest = found["op"], found["rest"]
            place = re.search(r"module ([\w.]+)", found["origin"] or "")
            path = place[1].removeprefix("model").strip(".") if place else ""
            name = f"{op}_{results[0][0]}"
            if op == "variable":
                path, _, name = re.findall(r'"(.*?)"', rest)[0].removeprefix("model.").rpartition(".")
            name = "/".join([root, *filter(None, path.split(".")), name])
            # Results beyond the first have an index in their name.
            for place_of, (number, _) in enumerate(results):
                names[number] = f"{name}:{place_of}" if place_of else name
            given = [names[number] for number in _VALUE.findall(rest) if number in names]
            nodes.append(_node(name, op, [] if op == "variable" else given, [shape for _, shape in results], rest))
    returned = next(line for line in lines if line.startswith("  return "))
    for number, shape in _RESULT.findall(returned):
        nodes.append(_node(f"output/{number}", "Output", [names[number]], [shape], ""))
    return nodes


def _node(name: str, op: str, inputs: list[str], shapes: list[str], text: str) -> NodeDef:
    sizes = [[int(n) for n in shape.split(",") if n.strip()] for shape in shapes]
    dims = [TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in size]) for size in sizes]
    attributes = {"_output_shapes": AttrValue(list=AttrValue.ListValue(shape=dims))}
    if text:
        attributes["attr"] = AttrValue(s=text.strip().encode())
    return NodeDef(name=name, op=op, input=inputs, attr=attributes)
