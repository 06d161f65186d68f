"""The public functions: `export` with PyTorch's signature, and the program that it returns."""

from __future__ import annotations

import inspect
import itertools
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._trace.logical import Logical, trace, trace_at_sizes
from oneflow._trace.named_sizes import SizeError
from oneflow._trace.open_dims import Dim
from oneflow._trace.size_guards import Guard, guards_of, warn_of_unseen
from oneflow._trace.source_locations import user_depth
from oneflow._trace.structure import flatten, is_keyed, paths, unflatten
from oneflow.onnx._export.program import model_of, names_of
from oneflow.onnx._export.rules import rules
from oneflow.utils import _pytree

Ranges = dict[str, tuple[int, int | None]]

OLDEST, NEWEST, DEFAULT = 17, 23, 20


class ONNXProgram:
    """A module as an ONNX model: :func:`export` returns one.

    Example::

        >>> program = oneflow.onnx.export(oneflow.nn.Linear(3, 2), (oneflow.zeros(1, 3),))
        >>> program.input_names, program.output_names
        (['input'], ['output'])
    """

    def __init__(self, model: dict[str, Any]) -> None:
        self._model = model

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs, in order."""
        return [i["name"] for i in self._model["graph"]["input"]]

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs, in order."""
        return [o["name"] for o in self._model["graph"]["output"]]

    @property
    def model_proto(self) -> Any:
        """The model as an ``onnx.ModelProto``; needs the ``onnx`` package."""
        from onnx import ModelProto

        return ModelProto.FromString(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The bytes of the model's file, tensors included; at most 2 GB."""
        return _oneflow._onnx_encode(self._model)

    def save(self, destination: Any, *, external_data: bool | None = None, **ignored: Any) -> None:
        """Write the model to a path, or to a file that is open for writing bytes.

        Tensors go to a file of their own, ``<name>.data``, if the model is larger than 2 GB or ``external_data`` is
        true.
        """
        for name in ("include_initializers", "keep_initializers_as_inputs"):
            if ignored.pop(name, None) not in (None, name == "include_initializers"):
                raise NotImplementedError(f"ONNXProgram.save: {name} is not provided")
        if ignored:
            raise TypeError(f"ONNXProgram.save() got an unexpected argument {next(iter(ignored))!r}")
        if hasattr(destination, "write"):
            if external_data:
                raise ValueError("ONNXProgram.save: external_data needs a path")
            destination.write(self.to_bytes())
        else:
            _oneflow._onnx_write(self._model, os.fspath(destination), bool(external_data))

    def module(self) -> Any:
        """The model, read back as a module."""
        from oneflow.onnx._import.loading import load_bytes

        return load_bytes(self.to_bytes())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model by this package; return a tuple of outputs."""
        tensors: list[Tensor] = []
        flatten((args, kwargs), tensors, None)
        return tuple(self.module().eval().run(*tensors))

    def __repr__(self) -> str:
        nodes = len(self._model["graph"]["node"])
        return f"ONNXProgram(inputs={self.input_names}, outputs={self.output_names}, nodes={nodes})"


def export(
    model: Callable[..., Any],
    args: Any = (),
    f: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool | None = None,
    dynamic_shapes: Any = None,
    custom_translation_table: Mapping[Any, Callable[..., Any]] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: Any = ".",
    fallback: bool = False,
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Any = None,
    training: Any = None,
    operator_export_type: Any = None,
    do_constant_folding: bool = True,
    custom_opsets: Any = None,
    export_modules_as_functions: Any = False,
    autograd_inlining: bool = True,
) -> ONNXProgram:
    """Export a module as an ONNX model.

    The module is traced in its present mode (call ``eval()`` for inference) on ``args`` and ``kwargs``, nested tuples,
    lists and dictionaries of tensors.

    Args:
        model: a module, or a function of tensors.
        args: the positional arguments; a single tensor stands for a tuple of one.
        f: a path or an open file to write to, or None.
        input_names: names of the inputs in order; by default those of the parameters of ``forward``.
        output_names: names of the outputs in order.
        opset_version: 17 to 23, by default 20. ``Attention`` and ``RMSNormalization`` are used from 23 on.
        dynamic_shapes: which dimensions stay open: for each argument (a tuple as ``args``, or a dictionary by name) a
            dictionary from axis to a name, or a tuple of a name or None for each axis. ``dynamic_axes`` is the older
            form, by names of inputs. The module is traced at several sizes, and every integer of the program that
            differs must follow from the named dimensions. Where a size must be a multiple of something, it is open to
            such multiples alone. A :class:`oneflow.export.Dim` in place of a name has a range.
        custom_translation_table: rules by an op's name (``"softmax"``): functions of the call (:class:`Op`), which
            return the names of values.
        external_data: write tensors to ``<f>.data``; this happens by itself for models above 2 GB.
        optimize, do_constant_folding, fallback, autograd_inlining, artifacts_dir: without effect, since the graph is
            written as it was traced.

    Raises:
        NotImplementedError: an op has no ONNX form; the error has the place in the program.
        ValueError: the program itself depends on a named dimension, or Python decides by its size otherwise than in the
            traces for sizes of at least 2 in its range; the error has the place.

    Example::

        >>> model = oneflow.nn.Sequential(oneflow.nn.Linear(3, 4), oneflow.nn.ReLU()).eval()
        >>> x = oneflow.ones(2, 3)
        >>> program = oneflow.onnx.export(model, (x,), dynamic_shapes=({0: "batch"},))
        >>> program(oneflow.ones(5, 3))[0].shape
        oneflow.Size([5, 4])
    """
    _refuse(locals())
    opset = DEFAULT if opset_version is None else opset_version
    if not OLDEST <= opset <= NEWEST:
        raise ValueError(f"onnx.export: opset {opset} is not provided: {OLDEST} to {NEWEST} are")
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    kwargs = dict(kwargs or {})
    if args and isinstance(args[-1], dict) and not kwargs and dynamic_shapes is None and not dynamo:
        args, kwargs = args[:-1], args[-1]
    tensors: list[Tensor] = []
    structure = flatten((args, kwargs), tensors, None)
    names = _input_names(model, args, kwargs, input_names, len(tensors))
    custom = {_name_of(k): v for k, v in (custom_translation_table or {}).items()}
    known = {**rules(), **custom}
    # What has no rule is traced as its composition, if it has one.
    expand = [op["name"] for op in _oneflow._C._ops() if op["name"] not in known]
    variables = names_of(model)

    def call(inputs: list[Tensor]) -> tuple[list[Tensor], Any]:
        given, named = unflatten(structure, iter(inputs))
        outputs: list[Tensor] = []
        return outputs, flatten(model(*given, **named), outputs, None)

    def run(inputs: list[Tensor]) -> dict[str, Any]:
        return trace(model, call, inputs, variables, expand)

    dims, ranges = _dims(model, args, kwargs, names, dynamic_shapes, dynamic_axes), _ranges(dynamic_shapes)
    try:
        graph, points = trace_at_sizes(run, tensors, dims, ranges=ranges)
    except SizeError as error:
        raise ValueError(f"onnx.export: {error}") from error.__cause__
    _refuse_guards(graph, points, ranges)
    warn_of_unseen("onnx.export", graph.unseen)
    outputs = _output_names(graph, output_names, dynamic_axes, names)
    made = model_of(graph, opset, names, outputs, dims, points, custom, export_params)
    program = ONNXProgram(made)
    if verify:
        _verify(model, args, kwargs, program)
    if f is not None:
        program.save(f, external_data=external_data)
    if verbose:
        sys.stdout.write(f"{program}\n")
    return program


# Answers of a question for each of which a trace is tried.
_MOST_ANSWERS = 16


def _refuse_guards(graph: Logical, points: list[dict[str, int]], ranges: Ranges) -> None:
    """A model has no guards: what Python decided has to hold for all sizes of at least 2 that the ranges allow.

    Sizes at which the module does not run, or is the same program, are no concern. Where only sizes of 1 are decided
    otherwise a warning says so.
    """
    from_two = {name: (max(2, ranges.get(name, (0, None))[0]), ranges.get(name, (0, None))[1]) for name in points[0]}
    larger = guards_of(graph.decisions, points, from_two, graph.numbers)
    start = {name: max(2, n) for name, n in points[0].items()}
    for guard in graph.guards:
        if guard in larger:
            broken = guard.breaking(start, from_two)
            if 0 < len(broken) <= _MOST_ANSWERS and not any(map(graph.is_other_at, broken.values())):
                continue
            raise ValueError(
                f"onnx.export: the model would be right only where {guard}, because Python decides by that size. "
                "Give the dimension a range in which it is so (dynamic_shapes with oneflow.export.Dim(name, min=, "
                "max=)), or leave it fixed"
            )
    at_one = [guard for guard in graph.guards if guard not in larger and _matters_at_one(guard, graph, start)]
    if at_one:
        lines = "; ".join(map(str, at_one[:3]))
        warnings.warn(f"onnx.export: the model is right where {lines}", stacklevel=user_depth())


def _matters_at_one(guard: Guard, graph: Logical, start: dict[str, int]) -> bool:
    """Whether a dimension of size 1 breaks a guard, and the program is another one there."""
    ones = [{**start, name: 1} for name in start]
    return any(not guard.holds(sizes) and graph.is_other_at(sizes) for sizes in ones)


_REFUSED: dict[str, tuple[Any, ...]] = {
    "report": (False,),
    "profile": (False,),
    "dump_exported_program": (False,),
    "keep_initializers_as_inputs": (False,),
    "export_modules_as_functions": (False, None),
    "custom_opsets": (None,),
    "operator_export_type": (None,),
    "training": (None, 0),
}


def _refuse(given: dict[str, Any]) -> None:
    for name, allowed in _REFUSED.items():
        if given[name] not in allowed:
            raise NotImplementedError(f"onnx.export: {name}={given[name]!r} is not provided")


def _name_of(key: Any) -> str:
    return key if isinstance(key, str) else getattr(key, "__name__", str(key))


def _parameters(model: Any) -> list[str]:
    function = model.forward if isinstance(model, oneflow.nn.Module) else model
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def _flat_names(name: str, value: Any) -> list[str]:
    """A name for each tensor of an argument."""
    return ["_".join(map(str, (name, *path))) for path in paths(flatten(value, [], None))]


def _input_names(model: Any, args: Any, kwargs: Any, given: Sequence[str] | None, n: int) -> list[str]:
    parameters = _parameters(model)
    names = []
    for i, value in enumerate(args):
        names += _flat_names(parameters[i] if i < len(parameters) else f"input_{i}", value)
    for key, value in kwargs.items():
        names += _flat_names(key, value)
    if given is not None:
        if len(given) > n:
            raise ValueError(f"onnx.export: {len(given)} input_names are given for {n} inputs")
        names[: len(given)] = list(given)
    if len(set(names)) != len(names):
        raise ValueError(f"onnx.export: a name is there twice in the inputs {names}")
    return names


def _output_names(graph: Any, given: Sequence[str] | None, axes: Any, inputs: list[str]) -> list[str]:
    n = len(graph.outputs)
    names = list(given or [])
    if len(names) > n:
        raise ValueError(f"onnx.export: {len(names)} output_names are given for {n} outputs")
    rest = _flat_keys(graph.structure)
    for i in range(len(names), n):
        key = rest[i] if i < len(rest) else ("output" if n == 1 else f"output_{i}")
        while key in names or key in inputs:
            key += "_out"
        names.append(str(key))
    return names


def _flat_keys(structure: Any) -> list[str]:
    """A name for each tensor of a result, by the keys of a dictionary or the fields of a dataclass."""
    if not is_keyed(structure):
        return []
    keys: list[str] = []
    for key, group in itertools.groupby(path[0] for path in paths(structure)):
        n = len(list(group))
        keys += [str(key)] if n == 1 else [f"{key}_{i}" for i in range(n)]
    return keys


def _dims(model: Any, args: Any, kwargs: Any, names: list[str], shapes: Any, axes: Any) -> dict[tuple[int, int], str]:
    dims: dict[tuple[int, int], str] = {}
    if axes:
        for name, given in dict(axes).items():
            if name not in names:
                continue
            i = names.index(name)
            items = given.items() if isinstance(given, dict) else [(a, f"{name}_dynamic_axes_{a + 1}") for a in given]
            dims.update({(i, int(a)): str(n) for a, n in items})
    if shapes is None:
        return dims
    parameters = _parameters(model)
    if isinstance(shapes, dict):
        ordered = [shapes.get(p) for p in parameters[: len(args)]] + [shapes.get(k) for k in kwargs]
    else:
        ordered = list(shapes) + [None] * (len(args) + len(kwargs) - len(shapes))
    place = 0
    for value, spec in zip([*args, *kwargs.values()], ordered, strict=False):
        place = _specified(value, spec, place, dims)
    return dims


def _specified(value: Any, spec: Any, place: int, dims: dict[tuple[int, int], str]) -> int:
    """Note the open dimensions of one argument; return the number of the next tensor."""
    if isinstance(value, Tensor):
        items = spec.items() if isinstance(spec, dict) else enumerate(spec or ())
        for axis, name in items:
            axis = int(axis) % value.dim()
            text = _dim_name(name, place, axis)
            if text is not None:
                dims[place, axis] = text
        return place + 1
    if isinstance(value, dict):
        for key, item in value.items():
            place = _specified(item, (spec or {}).get(key), place, dims)
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            place = _specified(item, spec[i] if spec else None, place, dims)
    return place


def _ranges(shapes: Any) -> Ranges:
    """The smallest and largest sizes of the dimensions that ``dynamic_shapes`` describes by a ``Dim``."""
    found: Ranges = {}
    for item in _pytree.tree_leaves(shapes):
        if isinstance(item, Dim) and item.__name__.isidentifier():
            found[item.__name__] = (item.min, item.max)
    return found


def _dim_name(name: Any, place: int, axis: int) -> str | None:
    if name is None or isinstance(name, int):
        return None
    if isinstance(name, str):
        text = name
    else:
        text = getattr(name, "__name__", None) or getattr(name, "name", None) or ""
        if not re.fullmatch(r"[A-Za-z_]\w*", text) or text in ("AUTO", "DYNAMIC"):
            text = f"s{place}_{axis}"
    return None if text == "STATIC" else text


def _verify(model: Any, args: Any, kwargs: Any, program: ONNXProgram) -> None:
    expected: list[Tensor] = []
    with oneflow.no_grad():
        flatten(model(*args, **kwargs), expected, None)
        made = program(*args, **kwargs)
    for name, want, have in zip(program.output_names, expected, made, strict=True):
        if not oneflow.allclose(want.float(), have.float(), rtol=1e-3, atol=1e-4):
            raise AssertionError(f"onnx.export: the output {name!r} of the exported model differs")
