"""PyTorch's names of symbolic numbers. Sizes are plain numbers; only ragged ones (``nested``) are of such a class."""

from __future__ import annotations

import math
from typing import Any

from oneflow._base.refusals import refuse_class

__all__ = [
    "SymBool",
    "SymFloat",
    "SymInt",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
]

_INSTEAD = "sizes are plain numbers"
SymInt: Any = refuse_class("oneflow.SymInt", _INSTEAD)
SymFloat: Any = refuse_class("oneflow.SymFloat", _INSTEAD)
SymBool: Any = refuse_class("oneflow.SymBool", _INSTEAD)

sym_max, sym_min, sym_sum = max, min, sum


def sym_not(a: Any) -> bool:
    """``not a``.

    Example::

        >>> oneflow.sym_not(False)
        True
    """
    return not a


def sym_float(a: Any) -> float:
    """``float(a)``.

    Example::

        >>> oneflow.sym_float(2)
        2.0
    """
    return float(a)


def sym_int(a: Any) -> int:
    """``a`` without its fraction.

    Example::

        >>> oneflow.sym_int(2.7)
        2
    """
    return math.trunc(a)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """``t if b else f``.

    Example::

        >>> oneflow.sym_ite(True, 1, 2)
        1
    """
    return t if b else f


def sym_sqrt(a: Any) -> float:
    """The square root.

    Example::

        >>> oneflow.sym_sqrt(9)
        3.0
    """
    return math.sqrt(a)
