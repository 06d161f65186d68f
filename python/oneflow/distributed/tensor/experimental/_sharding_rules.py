"""Rules by which PyTorch lays out DTensors around an op of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_OWN = ("aten", "prims")


def register_sharding(op: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Keep a function that says how the operands and results of ``op`` may be split, at ``op.overloadpacket.sharding``.

    An op of a program is a function here: what it calls is split as calls of the package are, so it takes DTensors of
    every layout without a rule, and the rule chooses nothing.

    Args:
        op: an op that a program defined (:mod:`oneflow.library`), or a list of such.

    Returns:
        a decorator, which returns the function.

    Raises:
        NotImplementedError: an op of the package, whose own rules hold.

    Example::

        >>> from oneflow.distributed.tensor.experimental import register_sharding
        >>> oneflow.library.define("docs_split::twice", "(Tensor x) -> Tensor")
        >>> @register_sharding(oneflow.ops.docs_split.twice.default)
        ... def rule(x):
        ...     return []
        >>> oneflow.ops.docs_split.twice.sharding is rule
        True
    """
    ops = list(op) if isinstance(op, (list, tuple)) else [op]
    for each in ops:
        if each.namespace in _OWN:
            raise NotImplementedError(f"register_sharding: {each} is an op of the package, whose own rules hold")

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        for each in ops:
            each.overloadpacket.sharding = function
        return function

    return keep
