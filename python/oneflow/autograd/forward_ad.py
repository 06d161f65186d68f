"""Forward-mode differentiation: named, and refused. ``autograd.functional.jvp`` computes its products by backward."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

_TEXT = (
    "forward-mode automatic differentiation is not implemented in oneflow; "
    "autograd.functional.jvp computes Jacobian-vector products with two backwards"
)


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError. There is no forward mode."""
    raise NotImplementedError(_TEXT)


dual_level = enter_dual_level = exit_dual_level = make_dual = unpack_dual = _refuse
