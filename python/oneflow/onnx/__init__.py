"""ONNX models in and out.

:func:`export` writes a module as a model, :func:`load` makes a module of a file, :mod:`oneflow.onnx.backend` is ONNX's
own interface for engines.
"""

from __future__ import annotations

import importlib
from typing import Any

from oneflow._base.refusals import constant, refuse
from oneflow.onnx._export.exporting import ONNXProgram, export
from oneflow.onnx._import.loading import load
from oneflow.onnx._import.module import ImportedModel

__all__ = ["ImportedModel", "ONNXProgram", "dynamo_export", "export", "is_in_onnx_export", "load"]

dynamo_export = refuse("oneflow.onnx.dynamo_export", "use oneflow.onnx.export")

is_in_onnx_export = constant("oneflow.onnx.is_in_onnx_export", False, "exports trace what eager execution runs")


def __getattr__(name: str) -> Any:
    if name == "backend":
        return importlib.import_module("oneflow.onnx.backend")
    raise AttributeError(f"module 'oneflow.onnx' has no attribute {name!r}")
