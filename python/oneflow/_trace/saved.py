"""Compiled graphs on disk: program and weights as the runtime writes them, and the structure of inputs and outputs."""

from __future__ import annotations

import inspect
import json
import os
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from oneflow import Tensor, _oneflow
from oneflow._base.nests import names
from oneflow._trace.size_guards import warn_of_unseen
from oneflow._trace.structure import TENSOR, flatten, is_keyed, paths, unflatten

_FILE = "structure.json"
_VERSION = 1


def save(graph: Any, directory: str | os.PathLike[str], which: Any = None) -> None:
    """Write a program of a graph, by default the latest, into a directory.

    Args:
        which: the key among the graph's programs.

    Raises:
        NotImplementedError: the program looks rows up in stores.
        RuntimeError: the graph has not been called yet, or the directory cannot be written.
    """
    if not graph._compiled:
        raise RuntimeError("save(): call the graph first (or trace it), so that it is compiled")
    which = next(reversed(graph._compiled)) if which is None else which
    (inputs, *_), _ = which
    program = graph._compiled[which]
    if program.lookups is not None:
        raise NotImplementedError(
            "save(): the program looks rows up in stores, which stay outside of it: let the graph take the rows as an "
            "input, and look them up before (oneflow_embedding::Serving does in Rust)"
        )
    if program.fitting is not None and program.fitting.unseen is not None:
        warn_of_unseen("save()", program.fitting.unseen.places)
    form = {"version": _VERSION, "inputs": _encode(inputs), "outputs": _encode(program.structure)}
    whole = os.path.join(directory, _FILE)
    try:
        os.makedirs(directory, exist_ok=True)
        with open(whole + ".part", "w", encoding="utf-8") as file:
            json.dump(form, file)
        os.replace(whole + ".part", whole)
    except OSError as error:
        raise RuntimeError(f"save(): cannot write {whole}: {error}") from error
    # The plan comes last: a directory that has one is complete.
    outputs = _paths(program.structure, "" if is_keyed(program.structure) else "output")
    program.compiled.save(directory, _distinct(_arguments(graph.build, inputs)), _distinct(outputs))


def _paths(structure: Any, start: str) -> Iterator[str]:
    """Name the tensors of a structure by the way to them: "batch.mask", "states.0"."""
    for path in paths(structure):
        yield ".".join(map(str, (start, *path) if start else path))


def _arguments(build: Any, structure: Any) -> Iterator[str]:
    """Name the tensors among the arguments of a call of ``build``."""
    _, _, ((_, _, args), (_, keys, kwargs)) = structure
    positional: list[str] = []
    for name, parameter in inspect.signature(build).parameters.items():
        if parameter.kind == parameter.VAR_POSITIONAL:
            positional += [f"{name}.{i}" for i in range(len(args) - len(positional))]
        positional.append(name)
    for name, value in (*zip(positional, args, strict=False), *zip(keys, kwargs, strict=True)):
        yield from _paths(value, name)


def _distinct(names: Iterator[str]) -> list[str]:
    """Return the names, or none if one names two tensors."""
    found = list(names)
    return found if len(set(found)) == len(found) else []


class LoadedGraph:
    """A compiled graph from a directory. It is called as the graph was, from any number of threads.

    Args:
        directory: what :func:`oneflow.save` of a graph wrote.
        sessions: the number of calls that may run at once; each has its own working memory. A program that trains runs
            one call after the other.

    Raises:
        RuntimeError: a file is missing or cannot be read.
        ValueError: a file is damaged, or of another version.
    """

    def __init__(self, directory: str | os.PathLike[str], sessions: int = 4) -> None:
        self._program = _oneflow._LoadedProgram(os.fspath(directory), sessions)
        path = os.path.join(directory, _FILE)
        n = len(self._program.inputs())
        self._inputs: Any = (tuple, None, ((tuple, None, (TENSOR,) * n), (dict, (), ())))
        self._outputs: Any = None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                try:
                    form = json.load(file)
                    if form["version"] != _VERSION:
                        raise ValueError(f"version {form['version']} is not supported")
                    self._inputs, self._outputs = _decode(form["inputs"]), _decode(form["outputs"])
                except (KeyError, TypeError, IndexError, ValueError, RecursionError) as error:
                    raise ValueError(f"{path}: it does not describe inputs and outputs: {error}") from error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = self._check(args, kwargs)
        results = self._program.run(tensors)
        if self._outputs is None:
            return tuple(results)
        try:
            return unflatten(self._outputs, iter(results))
        except StopIteration:
            raise ValueError(f"{self!r}: {_FILE} describes more results than the {len(results)} it has") from None

    def takes(self, args: Any, kwargs: Any) -> bool:
        """Return whether it was compiled for such arguments."""
        try:
            self._check(args, kwargs)
        except (TypeError, ValueError, RuntimeError):
            return False
        return True

    def _check(self, args: Any, kwargs: Any) -> list[Tensor]:
        tensors: list[Tensor] = []
        structure = flatten((args, kwargs), tensors, "input")
        if structure != self._inputs:
            raise TypeError(f"{self!r}: the arguments are not those it was compiled for")
        if self._program.dims():
            self._program.check(tensors)
            return tensors
        for tensor, (name, dtype, shape) in zip(tensors, self._program.inputs(), strict=True):
            if str(tensor.dtype) != f"oneflow.{dtype}" or list(tensor.shape) != shape:
                raise ValueError(
                    f"{self!r}: input {name!r} is {tensor.dtype} {list(tensor.shape)}, "
                    f"it was compiled for oneflow.{dtype} {shape}"
                )
        return tensors

    def state_dict(self) -> OrderedDict[str, Tensor]:
        """Return copies of the program's variables by name."""
        return OrderedDict(self._program.variables())

    def __repr__(self) -> str:
        return f"LoadedGraph({self._program.name()})"


def _encode(structure: Any) -> Any:
    if structure == TENSOR:
        return TENSOR
    if structure[0] == "constant":
        return {"constant": structure[2]}
    cls, context, parts = structure
    encoded = [_encode(part) for part in parts]
    # Classes of users may not be there when the program is read: their fields come back as a dictionary or a tuple.
    if is_keyed(structure):
        ordered = issubclass(cls, OrderedDict)
        return {
            "dict": [list(pair) for pair in zip(names(cls, context, len(parts)), encoded, strict=True)],
            "ordered": ordered,
        }
    return {"list" if issubclass(cls, list) else "tuple": encoded}


def _decode(form: Any) -> Any:
    if form == TENSOR:
        return TENSOR
    if "constant" in form:
        value = form["constant"]
        if not (value is None or isinstance(value, (bool, int, float, str))):
            raise ValueError(f"{value!r} is no constant")
        return ("constant", type(value), value)
    if "dict" in form:
        cls: type = OrderedDict if form["ordered"] else dict
        keys, parts = tuple(str(k) for k, _ in form["dict"]), tuple(_decode(v) for _, v in form["dict"])
        return (cls, keys, parts)
    kind, cls = ("list", list) if "list" in form else ("tuple", tuple)
    return (cls, None, tuple(_decode(v) for v in form[kind]))
