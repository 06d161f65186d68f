"""``torch._dynamo``: what :mod:`oneflow._dynamo` has, with the parts that packages import."""

from __future__ import annotations

from typing import Any, TypeVar

import oneflow._dynamo
from oneflow.mock_torch.private._dynamo import eval_frame, exc, utils

__all__ = ["eval_frame", "exc", "utils"]

T = TypeVar("T")


def assume_constant_result(fn: T) -> T:
    """Return ``fn`` itself."""
    return fn


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Accepted: compiled programs take tensors at any address."""


def __getattr__(name: str) -> Any:
    return getattr(oneflow._dynamo, name)
