"""Layers, losses, their functional forms, initialisation and helpers."""

from __future__ import annotations

from oneflow.nn import attention, functional, grad, graph, image, init, modules, parallel, parameter, utils
from oneflow.nn.graph import Graph
from oneflow.nn.modules import *  # noqa: F403
from oneflow.nn.modules import __all__ as _layers
from oneflow.nn.parallel import DataParallel
from oneflow.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

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
