"""Layers, losses, their functional forms, initialisation and helpers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneflow._base.lazy import LazyNames as _LazyNames
from oneflow.nn import _reduction, attention, functional, grad, image, init, modules, parallel, parameter, utils
from oneflow.nn.modules import *  # noqa: F403
from oneflow.nn.modules import __all__ as _layers
from oneflow.nn.parallel import DataParallel
from oneflow.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

if TYPE_CHECKING:
    from oneflow.nn import graph
    from oneflow.nn.graph import Graph

__all__ = [
    "Buffer",
    "DataParallel",
    "Graph",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "attention",
    "functional",
    "grad",
    "graph",
    "image",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
    *_layers,
]

# A graph consists of modules, so it imports them.
_lazy = _LazyNames(__name__, ("graph",), {"nn.graph": ("Graph",)})


def __getattr__(name: str) -> Any:
    return _lazy.find(name)


def __dir__() -> list[str]:
    return _lazy.dir()
