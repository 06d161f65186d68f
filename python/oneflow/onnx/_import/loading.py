"""Files and bytes to modules."""

from __future__ import annotations

import os
from typing import Any

from oneflow import _oneflow
from oneflow.onnx._import.model import model_of
from oneflow.onnx._import.module import ImportedModel


def load(model: Any) -> ImportedModel:
    """Load an ONNX model as a module.

    ``model`` is a path, a file object, bytes, or an ``onnx.ModelProto``. The module's parameters are the floating-point
    initializers of the graph, under their names: it runs eagerly, inside :class:`oneflow.nn.Graph`, trains and saves
    as any other module. Tensors in files of their own are read from the folder of the model; a path that leaves it is
    refused, so they need a path.

    Opsets 6 to 28 are read, older ones as far as their ops did not change; with functions, ``If``, ``Loop`` and
    ``Scan``, sequences, strings, quantized ops, and some ops of ONNX Runtime (``com.microsoft``). Inside a trace
    everything that depends on data alone (the branch of an ``If``, sizes read from tensors) must follow from shapes
    and constants.

    Raises ``ValueError`` for a file that is no valid model, and ``NotImplementedError`` that lists the ops that are not
    provided.

    Example::

        >>> model = oneflow.onnx.load("resnet18.onnx")  # doctest: +SKIP
        >>> model(oneflow.randn(1, 3, 224, 224)).shape  # doctest: +SKIP
        oneflow.Size([1, 1000])
    """
    if hasattr(model, "SerializeToString"):
        return load_bytes(model.SerializeToString())
    if isinstance(model, (bytes, bytearray, memoryview)):
        return load_bytes(bytes(model))
    if hasattr(model, "read"):
        return load_bytes(model.read())
    return ImportedModel(model_of(_oneflow._onnx_read(os.fspath(model), None)))


def load_bytes(data: bytes) -> ImportedModel:
    return ImportedModel(model_of(_oneflow._onnx_read(None, data)))
