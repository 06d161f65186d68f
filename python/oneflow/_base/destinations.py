"""Results that were computed whole and go into ``out=``: the last step of functions written in Python.

Functions of one family do it alike in PyTorch: elementwise ones cast, all others take the result's own dtype only. The
latter is what ``alias_copy(result, out=out)`` checks.
"""

from __future__ import annotations

from typing import Any

from oneflow import _oneflow


def cast_into(result: Any, out: Any) -> Any:
    """Return ``result``, in ``out`` if one was given, cast to its dtype if that is of no lower category.

    Raises:
        RuntimeError: ``out`` is of a lower category: integers for a floating-point result.
    """
    if out is None:
        return result
    if not _oneflow.can_cast(result.dtype, out.dtype):
        raise RuntimeError(f"result type {result.dtype} can't be cast to the desired output type {out.dtype}")
    return _oneflow.alias_copy(result.to(out.dtype), out=out)
