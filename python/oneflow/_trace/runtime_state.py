"""The compiled program of a graph as a dictionary of tensors and strings, and graphs that run one without tracing."""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._trace import saved

_VERSION = "oneflow_version"
_PROGRAMS = "programs"


def write(graph: Any) -> OrderedDict[str, Any]:
    """The state of a graph's programs: the files of each as bytes in tensors, by name."""
    programs: list[dict[str, Tensor]] = []
    for key in graph._compiled:
        with tempfile.TemporaryDirectory() as directory:
            saved.save(graph, directory, key)
            programs.append({name: _content(os.path.join(directory, name)) for name in sorted(os.listdir(directory))})
    return OrderedDict({_VERSION: oneflow.__version__, "graph_name": graph.name, _PROGRAMS: programs})


def _content(path: str) -> Tensor:
    with open(path, "rb") as file:
        return oneflow.frombuffer(bytearray(file.read()), dtype=oneflow.uint8)


def read(state: Any) -> list[saved.LoadedGraph]:
    """The programs of what :func:`write` returned.

    Raises:
        ValueError: it is nothing of that kind, or of another version.
    """
    if not isinstance(state, dict) or not isinstance(state.get(_PROGRAMS), list):
        raise ValueError("load_runtime_state_dict(): expected what runtime_state_dict() returns")
    if state.get(_VERSION) != oneflow.__version__:
        raise ValueError(
            f"load_runtime_state_dict(): the programs are of version {state.get(_VERSION)}, this is "
            f"{oneflow.__version__}"
        )
    return [_program(files) for files in state[_PROGRAMS]]


def _program(files: dict[str, Tensor]) -> saved.LoadedGraph:
    with tempfile.TemporaryDirectory() as directory:
        for name, content in files.items():
            if os.path.basename(name) != name or name in ("", ".", ".."):
                raise ValueError(f"load_runtime_state_dict(): {name!r} is no name of a program's file")
            with open(os.path.join(directory, name), "wb") as file:
                file.write(content.numpy().tobytes())
        return saved.LoadedGraph(directory)


def run(programs: list[saved.LoadedGraph], args: Any, kwargs: Any) -> tuple[Any] | None:
    """The result of the program that was compiled for such arguments, in a tuple; None if there is none."""
    for program in programs:
        if program.takes(args, kwargs):
            return (program(*args, **kwargs),)
    return None


def to_device(state: dict[str, Any], device: Any) -> dict[str, Any]:
    """Return the state for a device: programs name theirs, so that there is only the one.

    Raises:
        NotImplementedError: another device.
    """
    if oneflow.device(device).type != "cpu":
        raise NotImplementedError(
            f"runtime_state_dict_to(): a program runs on the device it was compiled for; compile the graph on {device}"
        )
    return state
