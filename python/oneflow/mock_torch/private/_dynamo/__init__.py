"""``torch._dynamo``: what :mod:`oneflow._dynamo` has, with the parts that packages import."""

from __future__ import annotations

from typing import Any

import oneflow._dynamo


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Accepted: compiled programs take tensors at any address."""


def __getattr__(name: str) -> Any:
    return getattr(oneflow._dynamo, name)
