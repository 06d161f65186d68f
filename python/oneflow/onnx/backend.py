"""ONNX's own Backend API: ``onnx.backend.test.BackendTest(oneflow.onnx.backend, __name__)`` tests this package.

Models are given as ``onnx.ModelProto``, inputs and results are numpy arrays. Only :func:`run_node`
imports the ``onnx`` package, with which its arguments are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oneflow as flow
from oneflow.onnx._import.loading import load_bytes
from oneflow.onnx._import.module import ImportedModel
from oneflow.onnx._import.values import FLOAT4, NAMES, Missing, Narrow, Strings, dtype_of, is_narrow

__all__ = ["BackendRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


class BackendRep:
    """A model that is ready to run.

    Example::

        >>> rep = oneflow.onnx.backend.prepare(model)  # doctest: +SKIP
        >>> rep.run([x])  # doctest: +SKIP
    """

    def __init__(self, module: ImportedModel, device: str) -> None:
        self.module, self.device = module, device

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model on numpy arrays, in the order of its inputs or by name; return its outputs as arrays."""
        if isinstance(inputs, dict):
            args, named = [], {k: value_of_array(v) for k, v in inputs.items()}
        else:
            args, named = [value_of_array(v) for v in inputs], {}
        with flow.no_grad():
            return tuple(array_of(value) for value in self.module.run(*args, **named))


def is_compatible(model: Any, device: str = "CPU", **kwargs: Any) -> bool:
    """Return whether every op of the model is provided.

    Example::

        >>> oneflow.onnx.backend.is_compatible(model)  # doctest: +SKIP
        True
    """
    try:
        load_bytes(model.SerializeToString())
    except (NotImplementedError, ValueError):
        return False
    return supports_device(device)


def prepare(model: Any, device: str = "CPU", **kwargs: Any) -> BackendRep:
    """Make a model ready to run.

    Raises ``NotImplementedError`` if one of its ops, or the device, is not provided.

    Example::

        >>> rep = oneflow.onnx.backend.prepare(model, "CPU")  # doctest: +SKIP
    """
    if not supports_device(device):
        raise NotImplementedError(f"oneflow.onnx.backend: the device {device!r} is not provided")
    module = load_bytes(model.SerializeToString()).eval()
    if device.upper().startswith(("CUDA", "GPU")):
        module = module.to("cuda")
    return BackendRep(module, device)


def run_model(model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
    """Run a model once.

    Example::

        >>> (y,) = oneflow.onnx.backend.run_model(model, [x])  # doctest: +SKIP
    """
    return prepare(model, device, **kwargs).run(inputs)


def run_node(
    node: Any, inputs: Sequence[Any], device: str = "CPU", outputs_info: Any = None, **kwargs: Any
) -> tuple[Any, ...]:
    """Run one ``onnx.NodeProto`` on arrays.

    Example::

        >>> node = onnx.helper.make_node("Relu", ["x"], ["y"])  # doctest: +SKIP
        >>> (y,) = oneflow.onnx.backend.run_node(node, [x])  # doctest: +SKIP
    """
    from onnx import helper

    names = [name for name in node.input if name]
    infos = [helper.make_empty_tensor_value_info(name) for name in names]
    results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "node", infos, results)
    return run_model(helper.make_model(graph, **kwargs), list(inputs), device)


def supports_device(device: str) -> bool:
    """Return whether models run on a device: ``"CPU"``, or ``"CUDA"`` with a GPU.

    Example::

        >>> oneflow.onnx.backend.supports_device("CPU")
        True
    """
    kind = device.upper().split(":")[0]
    return kind == "CPU" or (kind in ("CUDA", "GPU") and flow.cuda.is_available())


def value_of_array(array: Any) -> Any:
    """The value of this package for an array, a list of them (a sequence), or None (an empty optional)."""
    import numpy as np

    if array is None:
        return Missing()
    if isinstance(array, (list, tuple)):
        return [value_of_array(item) for item in array]
    if not isinstance(array, np.ndarray):
        array = np.asarray(array)
    if array.dtype.kind in "OSU":
        return Strings(
            array.shape, [s.decode() if isinstance(s, bytes) else str(s) for s in array.reshape(-1).tolist()]
        )
    elem = _ELEMENTS.get(array.dtype.name)
    if elem is None:
        return flow.tensor(np.ascontiguousarray(array).tolist())
    if is_narrow(elem):
        carrier = np.dtype("float32" if elem == FLOAT4 else "int8" if array.dtype.name.startswith("int") else "uint8")
        return Narrow(flow.from_numpy(array.astype(carrier)), elem)
    plain = np.array(array, order="C")
    if array.dtype.name in _AS_BYTES:
        bits = plain.view("uint8" if array.dtype.itemsize == 1 else "int16")
        return flow.from_numpy(bits).view(dtype_of(elem))
    return flow.from_numpy(plain)


def array_of(value: Any) -> Any:
    """The numpy array of a value."""
    import numpy as np

    if value is None or isinstance(value, Missing):
        return None
    if isinstance(value, list):
        return [array_of(item) for item in value]
    if isinstance(value, Strings):
        return np.array(value.items, dtype=object).reshape(value.shape)
    if isinstance(value, Narrow):
        return value.values.cpu().numpy().astype(_extra_type(NAMES[value.elem]))
    value = value.detach().cpu().contiguous()
    name = str(value.dtype).split(".")[-1]
    if name in _AS_BYTES:
        bits = value.view(flow.uint8 if value.dtype.itemsize == 1 else flow.int16).numpy()
        return bits.view(_extra_type(name))
    return value.numpy()


def _extra_type(name: str) -> Any:
    import ml_dtypes
    import numpy as np

    return np.dtype(getattr(ml_dtypes, {"float4e2m1": "float4_e2m1fn"}.get(name, name)))


_AS_BYTES = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
_ELEMENTS = {name: elem for elem, name in NAMES.items() if name not in ("string", "float4e2m1")}
_ELEMENTS["float4_e2m1fn"] = FLOAT4
