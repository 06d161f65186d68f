"""``torch.onnx``: what packages register for exports that :mod:`oneflow.onnx` refuses to make."""

from __future__ import annotations

from typing import Any

import oneflow.onnx


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int, **_: Any) -> None:
    """Accepted: exports are not provided."""


def __getattr__(name: str) -> Any:
    return getattr(oneflow.onnx, name)
