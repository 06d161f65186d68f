"""An ONNX model as a module: initializers become parameters and buffers, `forward` runs the graph."""

from __future__ import annotations

from typing import Any

import oneflow as flow
from oneflow import nn
from oneflow.onnx._import.execution import Interpreter, Scope, prepare
from oneflow.onnx._import.model import Graph, Model, ValueInfo, dense_of, value_of
from oneflow.onnx._import.values import NAMES, Missing, elem_of

# Inputs that are settings of an op, by position: floats that stand there are constants, not parameters.
_SETTINGS: dict[str, tuple[int, ...]] = {
    "BatchNormalization": (3, 4),
    "Clip": (1, 2),
    "DequantizeLinear": (1, 2),
    "Dropout": (1, 2),
    "NonMaxSuppression": (2, 3, 4),
    "OneHot": (1, 2),
    "Pad": (1, 2, 3),
    "QLinearConv": (1, 4, 6),
    "QLinearMatMul": (1, 4, 6),
    "QuantizeLinear": (1, 2),
    "Range": (0, 1, 2),
    "Resize": (1, 2, 3),
    "Upsample": (1,),
}


class ImportedModel(nn.Module):
    """A model from an ONNX file, which :func:`oneflow.onnx.load` makes.

    Its parameters are the floating-point initializers of the graph under their names, statistics of normalizations and
    all other constants are buffers. Inputs are given by position, in the order of ``input_names``, or by name.

    Example::

        >>> program = oneflow.onnx.export(oneflow.nn.Linear(3, 2), (oneflow.zeros(1, 3),))
        >>> model = oneflow.onnx.load(program.to_bytes())
        >>> type(model).__name__, model.input_names, model.output_names
        ('ImportedModel', ['input'], ['output'])
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._model = model
        self._paths: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        graph = model.graph
        trainable = _trainable(graph)
        for name, tensor in graph.initializers.items():
            value = dense_of(tensor) if "indices" in tensor else value_of(tensor)
            if not isinstance(value, flow.Tensor):
                self._values[name] = value
                trainable.discard(name)
                continue
            if not value.is_floating_point() or value.dtype.itemsize < 2:
                trainable.discard(name)
            self._paths[name] = self._own(name, value, name in trainable)
        graph.initializers = dict.fromkeys(graph.initializers)
        self._trainable = trainable
        self._inputs = [i for i in graph.inputs if i.name not in graph.initializers]
        prepare(model, trainable)

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs, in order."""
        return [info.name for info in self._inputs]

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs, in order."""
        return [info.name for info in self._model.graph.outputs]

    @property
    def opset(self) -> dict[str, int]:
        """The version of each domain of ops; the empty domain is ONNX's own."""
        return dict(self._model.opsets)

    @property
    def metadata(self) -> dict[str, str]:
        """The file's metadata: producer, version, description and properties."""
        return dict(self._model.metadata)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        results = self.run(*args, **kwargs)
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Run the model; return its outputs as a list, even if there is only one."""
        values = dict(self._values)
        for name, path in self._paths.items():
            owner: Any = self
            *parts, last = path.split(".")
            for part in parts:
                owner = owner._modules[part]
            values[name] = owner._parameters.get(last) if last in owner._parameters else owner._buffers[last]
        values.update(self._bound(args, kwargs))
        scope = Scope(None, None, self._model.opsets)
        return Interpreter(self._model).run(self._model.graph, values, None, scope)

    def _bound(self, args: Any, kwargs: Any) -> dict[str, Any]:
        names = self.input_names
        if len(args) > len(names):
            raise TypeError(f"the ONNX model takes {len(names)} inputs ({', '.join(names)}), {len(args)} were given")
        bound = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name in bound:
                raise TypeError(f"the ONNX model got its input {name!r} twice")
            if name not in names and name not in self._model.graph.initializers:
                raise TypeError(f"the ONNX model has no input {name!r}: its inputs are {', '.join(names)}")
            bound[name] = value
        for info in self._inputs:
            if info.name not in bound and info.kind != "optional":
                raise TypeError(f"the ONNX model misses its input {info.name!r}")
            _check(info, bound.setdefault(info.name, Missing()))
        return bound

    def _own(self, name: str, value: Any, trainable: bool) -> str:
        """Hold a tensor under its name, in nested modules where the name has dots; return the path."""
        owner: nn.Module = self
        *parts, last = [p or "_" for p in name.split(".")]
        for i, part in enumerate(parts):
            child = owner._modules.get(part)
            if child is None:
                if hasattr(owner, part):
                    owner, parts, last = self, [], name.replace(".", "_")
                    break
                child = nn.Module()
                owner.add_module(part, child)
            owner, parts[i] = child, part
        while hasattr(owner, last):
            last += "_"
        if trainable:
            owner.register_parameter(last, nn.Parameter(value))
        else:
            owner.register_buffer(last, value)
        return ".".join([*parts, last])

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_model"] = _without_handlers(self._model)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        prepare(self._model, self._trainable)

    def extra_repr(self) -> str:
        domains = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in self._model.opsets.items())
        return f"inputs=[{', '.join(map(_text, self._inputs))}], nodes={len(self._model.graph.nodes)}, opset={domains}"


def _text(info: ValueInfo) -> str:
    sizes = "" if info.sizes is None else f"[{', '.join(str('?' if s is None else s) for s in info.sizes)}]"
    return f"{info.name}: {NAMES.get(info.elem or 0, info.kind)}{sizes}"


def _check(info: ValueInfo, value: Any) -> None:
    if info.kind != "tensor" or not isinstance(value, flow.Tensor):
        return
    if info.elem and elem_of(value) != info.elem:
        wanted = NAMES.get(info.elem, str(info.elem))
        raise TypeError(f"the input {info.name!r} of the ONNX model is {value.dtype}, {wanted} is expected")
    if info.sizes is None:
        return
    given = list(value.shape)
    if len(given) != len(info.sizes) or any(
        isinstance(w, int) and w != g for w, g in zip(info.sizes, given, strict=False)
    ):
        raise ValueError(f"the input {_text(info)} of the ONNX model got sizes {given}")


def _trainable(graph: Graph) -> set[str]:
    """The initializers that are not settings of the ops that read them."""
    names = set(graph.initializers)
    for node in graph.nodes:
        for i in _SETTINGS.get(node.op, ()) if node.domain == "" else ():
            if i < len(node.inputs):
                names.discard(node.inputs[i])
    return names


def _without_handlers(model: Model) -> Model:
    """A copy whose nodes do not hold functions, which cannot be written to a file."""
    import copy

    kept: list[tuple[Any, Any]] = []
    graphs = [model.graph, *(function.graph for function in model.functions.values())]
    while graphs:
        for node in graphs.pop().nodes:
            kept.append((node, node.run))
            node.run = None
            for value in node.attributes.values():
                graphs += [
                    inner for inner in (value if isinstance(value, list) else [value]) if isinstance(inner, Graph)
                ]
    try:
        return copy.deepcopy(model)
    finally:
        for node, run in kept:
            node.run = run
