"""``einsum`` multiplies from left to right: no other order is searched for."""

from __future__ import annotations

from oneflow._base.refusals import constant

__all__ = ["enabled", "get_opt_einsum", "is_available", "strategy"]

enabled = False
strategy: str | None = None

is_available = constant("oneflow.backends.opt_einsum.is_available", False, "no other order is searched for")
get_opt_einsum = constant("oneflow.backends.opt_einsum.get_opt_einsum", None, "no module of that name is used")
