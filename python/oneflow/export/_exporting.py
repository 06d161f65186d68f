"""``export``: a module is traced on its example arguments, at several sizes where dimensions stay open."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from oneflow import Tensor, _oneflow
from oneflow._base.refusals import refuse_composed
from oneflow._trace.logical import Logical, trace, trace_at_sizes
from oneflow._trace.named_sizes import Named, SizeError
from oneflow._trace.open_dims import OpenDims, argument_names, open_dims
from oneflow._trace.size_guards import warn_of_unseen
from oneflow.export._building import Leaf, build
from oneflow.export._directory import open_dims_of
from oneflow.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature, Range
from oneflow.export.graph_signature import InputKind, OutputKind
from oneflow.fx.graph import Graph
from oneflow.nn import Module, Parameter
from oneflow.utils import _pytree

Lasting = list[tuple[InputKind, str, Tensor, bool | None]]


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: Sequence[str] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """Trace a module's forward pass into a program of ops.

    The module runs in its present mode on the example arguments, nested tuples, lists and dictionaries of tensors and
    constants; nothing of it is changed. Python is gone from the program: what depends on a tensor's values cannot be
    traced. What Python decides by an open size is a guard of the program (:attr:`ExportedProgram.guards`): calls at
    sizes that would be decided otherwise are refused.

    Args:
        mod: the module.
        args: the positional arguments of an example call.
        kwargs: the named ones.
        dynamic_shapes: which dimensions stay open, as the arguments are nested: for each tensor a dictionary from
            dimension to :class:`Dim`, or a sequence with an item for each dimension. ``Dim.DYNAMIC`` is an open
            dimension without a name; ``Dim.AUTO`` is open if the program lets it be; None is as in the example. The
            module is traced at several sizes, and each integer that differs has to follow from the open dimensions.
        strict: accepted; either way the module runs as Python.
        preserve_module_call_signature: has to be empty.

    Raises:
        TypeError: ``mod`` is no module.
        ValueError: the program depends on an open dimension in a way that is no sum of products; the error has the
            place in the program.

    Example::

        >>> from oneflow.export import Dim, export
        >>> model = oneflow.nn.Sequential(oneflow.nn.Flatten(), oneflow.nn.Linear(6, 2))
        >>> program = export(model, (oneflow.ones(4, 2, 3),), dynamic_shapes=({0: Dim("batch")},))
        >>> program.module()(oneflow.ones(9, 2, 3)).shape
        oneflow.Size([9, 2])
        >>> program.module()(oneflow.ones(9, 3, 2))
        Traceback (most recent call last):
        AssertionError: Guard failed: input_1.size()[1] == 2 (it is 3)
    """
    if not isinstance(mod, Module):
        raise TypeError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise TypeError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    if preserve_module_call_signature:
        raise NotImplementedError("export: preserve_module_call_signature is not provided")
    if prefer_deferred_runtime_asserts_over_guards:
        raise NotImplementedError("export: prefer_deferred_runtime_asserts_over_guards is not provided")
    kwargs = dict(kwargs or {})
    found = open_dims(mod.forward, args, kwargs, dynamic_shapes)
    return exported(mod, args, kwargs, found, ())


def exported(
    mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any], found: OpenDims, expand: Sequence[str]
) -> ExportedProgram:
    """A program of a module or a function, with these open dimensions."""
    leaves, in_spec = _pytree.tree_flatten((args, kwargs))
    for leaf in leaves:
        if not isinstance(leaf, (Tensor, int, float, bool, str, type(None))):
            raise TypeError(
                f"export: an argument has a {type(leaf).__name__}; tensors, numbers, strings and None are expected "
                "(utils._pytree.register_pytree_node makes a class a nest)"
            )
        refuse_composed("export", leaf)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    lasting = tensors_of(mod)
    names = {name: tensor for _, name, tensor, _ in lasting}

    def call(inputs: list[Tensor]) -> tuple[list[Tensor], Any]:
        given = iter(inputs)
        placed = [next(given) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        positional, named = _pytree.tree_unflatten(placed, in_spec)
        values, out_spec = _pytree.tree_flatten(mod(*positional, **named))
        return [v for v in values if isinstance(v, Tensor)], {
            "leaves": [None if isinstance(v, Tensor) else [v] for v in values],
            "spec": _Same(out_spec),
        }

    seen: dict[tuple[Any, ...], dict[str, Any]] = {}

    def run(inputs: list[Tensor]) -> dict[str, Any]:
        key = tuple(tuple(t.shape) for t in inputs)
        if key not in seen:
            seen[key] = trace(mod, call, inputs, names, expand)
        return seen[key]

    try:
        _decide(found, run, tensors)
        traced, points = trace_at_sizes(run, tensors, found.named, ranges=found.ranges)
    except SizeError as error:
        raise ValueError(f"export: {error}") from error.__cause__
    _refuse_open_constants(traced)
    warn_of_unseen("export", traced.unseen)
    arguments = [Leaf(n, v) for n, v in zip(_leaf_names(mod, args, kwargs), leaves, strict=True)]
    results = traced.structure["leaves"]
    graph, signature, constants = build(traced, found.named, points[0], lasting, arguments, results)
    if isinstance(mod, Module):
        _note_modules(graph, mod)
    state = mod.state_dict(keep_vars=True) if isinstance(mod, Module) else {}
    for kind, name, tensor, persistent in lasting:
        if kind is InputKind.PARAMETER or (kind is InputKind.BUFFER and persistent):
            state.setdefault(name, tensor)
        elif kind is InputKind.BUFFER:
            constants[name] = tensor
    whole = ModuleCallSignature(
        [s.arg for s in signature.input_specs if s.kind is InputKind.USER_INPUT],
        [s.arg for s in signature.output_specs if s.kind is OutputKind.USER_OUTPUT],
        in_spec,
        traced.structure["spec"].value,
        argument_names(mod.forward if isinstance(mod, Module) else mod, args, kwargs),
    )
    inner = [ModuleCallEntry(name) for name, _ in mod.named_modules() if name] if isinstance(mod, Module) else []
    ranges = {name: Range(low, high) for name, (low, high) in found.ranges.items()}
    program = ExportedProgram(
        {},
        graph,
        signature,
        dict(state),
        ranges,
        [ModuleCallEntry("", whole), *inner],
        (args, kwargs),
        constants,
        guards=[*traced.guards, *traced.multiples],
    )
    program.graph.lint()
    return program


def _note_modules(graph: Graph, mod: Module) -> None:
    """Note at each node the modules around it, from the outermost: their paths and types, as PyTorch does."""
    called = {path: m for path, m in mod.named_modules() if type(m).forward is not Module.forward}
    for node in graph.nodes:
        place = re.search(r"(?:^|, )module (\S+)$", node.meta.get("stack_trace", ""))
        if place is None:
            continue
        parts = place[1].split(".") if place[1] in called else []
        paths = [".".join(parts[:n]) for n in range(len(parts) + 1)]
        node.meta["nn_module_stack"] = {
            f"L__self__{path}": (path, f"{type(called[path]).__module__}.{type(called[path]).__qualname__}")
            for path in paths
            if path in called
        }


class _Same:
    """A structure that all traces must share."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return str(self.value)


def tensors_of(mod: Any) -> Lasting:
    """The tensors of a module by name: parameters, buffers, and tensors that are plain attributes."""
    found: Lasting = []
    if not isinstance(mod, Module):
        return found
    found += [(InputKind.PARAMETER, name, value, None) for name, value in mod.named_parameters()]
    unsaved = {
        f"{path}.{name}" if path else name for path, m in mod.named_modules() for name in m._non_persistent_buffers_set
    }
    found += [(InputKind.BUFFER, name, value, name not in unsaved) for name, value in mod.named_buffers()]
    for path, module in mod.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor) and not isinstance(value, Parameter):
                found.append((InputKind.CONSTANT_TENSOR, f"{path}.{name}" if path else name, value, None))
    return found


def _refuse_open_constants(traced: Logical) -> None:
    for value, name, _ in traced.variables:
        if not all(isinstance(size, int) for size in traced.values[value].sizes):
            raise ValueError(f"export: the constant {name!r} has the sizes {traced.values[value].sizes}")


def _decide(found: OpenDims, run: Any, tensors: list[Tensor]) -> None:
    """Open dimensions that are left to the program: each on its own if it can be, or else with others of its size."""

    def is_open(trial: Mapping[tuple[int, int], Named]) -> bool:
        try:
            trace_at_sizes(run, tensors, {**found.named, **trial}, _TRIES)
        except (RuntimeError, ValueError, IndexError, TypeError):
            return False
        return True

    groups: list[dict[tuple[int, int], Named]] = []
    for axes in found.auto.values():
        alone = [axis for axis in axes if is_open({axis: "it"})]
        groups += [{axis: found.fresh()} for axis in alone]
        rest = [axis for axis in axes if axis not in alone]
        if len(rest) > 1 and is_open(dict.fromkeys(rest, "it")):
            groups.append(dict.fromkeys(rest, found.fresh()))
    found.auto.clear()
    everything = {axis: name for group in groups for axis, name in group.items()}
    if is_open(everything):
        found.named.update(everything)
        return
    # Dimensions that can each be open alone cannot always be open together.
    for group in groups:
        if is_open(group):
            found.named.update(group)
        else:
            found.ranges.pop(str(next(iter(group.values()))))


# Tries sizes that are larger by one, by two and by four.
_TRIES = (1, 2, 4)


def _leaf_names(mod: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    names = argument_names(mod.forward if isinstance(mod, Module) else mod, args, kwargs)
    found = []
    for name, value in zip(names, [*args, *kwargs.values()], strict=True):
        for path, _ in _pytree.tree_leaves_with_path(value):
            text = name + _pytree.keystr(path)
            found.append(re.sub(r"\W+", "_", text.replace("'", "")).strip("_"))
    return found


# Ops whose compositions serve gradients or other devices, and are made of ops that have no kernel of their own.
_KEPT = frozenset(
    "cumprod cumsum div gather index_put linalg_qr matmul narrow.tensor native_embedding_bag prod scatter.reduce "
    "scatter.src scatter_add sum tensor_split.tensor".split()
)


def decomposed(program: ExportedProgram, expand: bool) -> ExportedProgram:
    """A program traced again from its own module; with ``expand``, ops are traced as their compositions."""
    if program.example_inputs is None:
        raise ValueError("run_decompositions: the program has no example inputs to be traced with")
    args, kwargs = program.example_inputs
    found = open_dims_of(program)
    ops = [op["name"] for op in _oneflow._C._ops() if op["name"] not in _KEPT] if expand else []
    made = exported(program.module(check_guards=False), args, dict(kwargs), found, ops)
    made._module_call_graph[1:] = program.module_call_graph[1:]
    made._guards = list(program.guards)
    return made
