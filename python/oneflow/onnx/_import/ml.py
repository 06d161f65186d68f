"""Some ops of the domain ``ai.onnx.ml``."""

from __future__ import annotations

from typing import Any

import oneflow as flow
from oneflow.onnx._import.registry import Call, handler
from oneflow.onnx._import.values import Strings

_ML = "ai.onnx.ml"


@handler("ArrayFeatureExtractor", domain=_ML)
def array_feature_extractor(c: Call, x: Any, index: Any) -> Any:
    y = x.index_select(x.dim() - 1, index.flatten().to(flow.int64))
    return y.reshape(1, -1) if x.dim() == 1 else y


@handler("Binarizer", domain=_ML)
def binarizer(c: Call, x: Any) -> Any:
    return (x > c.get("threshold", 0.0)).to(x.dtype)


@handler("Scaler", domain=_ML)
def scaler(c: Call, x: Any) -> Any:
    return (x - flow.tensor(list(c.get("offset")))) * flow.tensor(list(c.get("scale")))


def _listed(c: Call, prefix: str) -> Any:
    """The keys or values of an encoder, and the dtype of the results they would make."""
    for kind, dtype in (("strings", None), ("int64s", flow.int64), ("floats", flow.float32)):
        found = c.get(f"{prefix}_{kind}")
        if found:
            return [s.decode() if isinstance(s, bytes) else s for s in found], dtype
    found = c.get(f"{prefix}_tensor")
    if isinstance(found, Strings):
        return found.items, None
    return found.flatten().tolist(), found.dtype


@handler("LabelEncoder", domain=_ML)
def label_encoder(c: Call, x: Any) -> Any:
    keys, _ = _listed(c, "keys")
    values, dtype = _listed(c, "values")
    table = {("nan" if k != k else k): v for k, v in zip(keys, values, strict=True)}
    default: Any
    given = c.get("default_tensor")
    if given is not None:
        default = given.items[0] if isinstance(given, Strings) else given.flatten().tolist()[0]
    elif dtype is None:
        default = c.text("default_string", "_Unused")
    else:
        default = c.get("default_int64", -1) if not dtype.is_floating_point else c.get("default_float", -0.0)
    items = x.items if isinstance(x, Strings) else x.flatten().tolist()
    found = [table.get("nan" if k != k else k, default) for k in items]
    if dtype is None:
        return Strings(tuple(x.shape), found)
    return flow.tensor(found, dtype=dtype).reshape(tuple(x.shape))
