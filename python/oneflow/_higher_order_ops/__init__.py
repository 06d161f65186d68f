"""Functions that take functions, at the place where PyTorch's programs import them: ``torch._higher_order_ops``."""

from __future__ import annotations

from oneflow._functions.control_flow import cond, while_loop
from oneflow._higher_order_ops.associative_scan import associative_scan

__all__ = ["associative_scan", "cond", "while_loop"]
