"""Exported programs as directories of compiled programs, which ``torch.load`` and Rust run."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any

import oneflow
from oneflow.nn import Graph, Module


class _Program(Graph):
    """Calls a module, in the names of its arguments."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.model = module

    def build(self, *args: Any, **kwargs: Any) -> Any:
        return self.model(*args, **kwargs)


def save_compiled(module: Module, directory: str | os.PathLike[str], args: Any, kwargs: Mapping[str, Any]) -> None:
    """Compile a module for arguments of these sizes, and write the directory."""
    named = inspect.signature(module.forward)

    class Program(_Program):
        def build(self, *args: Any, **kwargs: Any) -> Any:
            return super().build(*args, **kwargs)

    # The names of the program's inputs are those of the parameters of `build`.
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    Program.build.__signature__ = named.replace(  # type: ignore[attr-defined]
        parameters=[own, *named.parameters.values()]
    )
    graph = Program(module)
    with oneflow.no_grad():
        graph(*args, **kwargs)
    oneflow.save(graph, directory)
