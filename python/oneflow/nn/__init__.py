"""Layers, losses, their functional forms, initialisation and helpers."""

from __future__ import annotations

from oneflow.nn import functional, init, modules, parameter, utils
from oneflow.nn.modules import *  # noqa: F403
from oneflow.nn.modules import __all__ as _layers
from oneflow.nn.parameter import Buffer, Parameter

__all__ = ["Buffer", "Parameter", "functional", "init", "modules", "parameter", "utils", *_layers]
