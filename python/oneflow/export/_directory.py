"""Exported programs as program directories: what Rust runs without Python."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any

import oneflow
from oneflow._trace import saved
from oneflow._trace.open_dims import OpenDims
from oneflow.export.exported_program import ExportedProgram

__all__ = ["open_dims_of", "save_program"]


def open_dims_of(program: ExportedProgram) -> OpenDims:
    """The open dimensions of a program's inputs, by (number of the input, axis), and their ranges."""
    found = OpenDims()
    number = 0
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name not in program.graph_signature.user_inputs or "sizes" not in node.meta:
            continue
        for axis, size in enumerate(node.meta["sizes"]):
            if not isinstance(size, (int, type(None))):
                found.named[number, axis] = size
        number += 1
    found.ranges = {name: (r.lower, r.upper) for name, r in program.range_constraints.items()}
    return found


def save_program(
    program: ExportedProgram,
    directory: str | os.PathLike[str],
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> None:
    """Compile an exported program and write it into a directory, as ``oneflow.save`` does with a graph.

    ``oneflow.load`` reads it as a function, and ``oneflow_runtime::Session::load`` in Rust. Dimensions that are open in
    the program stay open: one compiled program serves all their sizes.

    Args:
        program: of :func:`export`, or of :func:`load`.
        directory: is created if it does not exist.
        args, kwargs: the arguments it is compiled for, by default those that the program was exported with.

    Raises:
        TypeError: it is no exported program.
        AssertionError: a size of the arguments is not what the program was exported for.
        ValueError: there are no arguments, as a loaded program may have lost those it was exported with, or the
            program does not follow from its open dimensions.
        RuntimeError: the directory cannot be written.

    Example::

        >>> import tempfile
        >>> model = oneflow.nn.Linear(3, 2)
        >>> program = oneflow.export.export(model, (oneflow.ones(4, 3),), dynamic_shapes=({0: "batch"},))
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     oneflow.export.save_program(program, directory)
        ...     oneflow.load(directory)(oneflow.ones(7, 3)).shape
        oneflow.Size([7, 2])
    """
    if not isinstance(program, ExportedProgram):
        raise TypeError(f"save_program(): expected an ExportedProgram, got {type(program).__name__}")
    if args is None:
        if program.example_inputs is None:
            raise ValueError("save_program(): the program has no example inputs; give the arguments to trace it with")
        args, named = program.example_inputs
        kwargs = named if kwargs is None else kwargs
    kwargs = kwargs or {}
    program.leaves_of(args, kwargs)
    # Its guards ask the traced sizes again, which makes them those of the compiled program.
    module = program.module()

    class Exported(oneflow.nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = module

        def build(self, *args: Any, **kwargs: Any) -> Any:
            return self.model(*args, **kwargs)

    call = program.module_call_graph[0].signature
    names = [] if call is None else call.forward_arg_names or []
    if len(names) == len(args) + len(kwargs) and all(name.isidentifier() for name in names):
        # The inputs of the saved program are called as the module's arguments.
        kinds = inspect.Parameter
        parameters = [kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in names]
        Exported.build.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [kinds("self", kinds.POSITIONAL_ONLY), *parameters]
        )
    graph = Exported()
    dims = open_dims_of(program)
    if dims.named:
        graph.config._dynamic_shapes = dims
    with oneflow.no_grad():
        graph.trace(*args, **kwargs)
    saved.save(graph, directory)
