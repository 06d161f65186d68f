"""ONNX: files are not written."""

from __future__ import annotations

from oneflow._base.refusals import constant, refuse, refuse_class

__all__ = ["ONNXProgram", "dynamo_export", "export", "is_in_onnx_export"]

_INSTEAD = "save the state_dict with oneflow.save and export from PyTorch, or save the compiled graph with oneflow.save"

ONNXProgram = refuse_class("oneflow.onnx.ONNXProgram", _INSTEAD)
export = refuse("oneflow.onnx.export", _INSTEAD)
dynamo_export = refuse("oneflow.onnx.dynamo_export", _INSTEAD)

is_in_onnx_export = constant("oneflow.onnx.is_in_onnx_export", False, "exports are not provided")
