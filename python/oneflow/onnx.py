"""ONNX: files are not written."""

from __future__ import annotations

from oneflow._refusals import refuse

__all__ = ["dynamo_export", "export", "is_in_onnx_export"]

_INSTEAD = "save the state_dict with oneflow.save and export from PyTorch, or save the compiled graph with oneflow.save"

export = refuse("oneflow.onnx.export", _INSTEAD)
dynamo_export = refuse("oneflow.onnx.dynamo_export", _INSTEAD)


def is_in_onnx_export() -> bool:
    """False.

    Example::

        >>> oneflow.onnx.is_in_onnx_export()
        False
    """
    return False
