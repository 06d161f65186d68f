"""Queries about symbolic sizes. Sizes are plain numbers here, so that each has a plain result."""

from __future__ import annotations

from typing import Any

__all__ = [
    "GuardOnDataDependentSymNode",
    "free_symbols",
    "free_unbacked_symbols",
    "guard_or_false",
    "guard_or_true",
    "guard_size_oblivious",
    "is_concrete_bool",
    "is_concrete_int",
    "statically_known_true",
    "sym_eq",
]


class GuardOnDataDependentSymNode(RuntimeError):
    """A size that depends on data was needed: never raised, since sizes are known.

    Example::

        >>> from oneflow.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
        >>> issubclass(GuardOnDataDependentSymNode, RuntimeError)
        True
    """


def free_symbols(val: Any) -> set[Any]:
    """The symbols in ``val``: none.

    Example::

        >>> from oneflow.fx.experimental.symbolic_shapes import free_symbols
        >>> free_symbols(3)
        set()
    """
    return set()


free_unbacked_symbols = free_symbols


def guard_or_false(a: Any) -> bool:
    """Return whether ``a`` is true.

    Example::

        >>> from oneflow.fx.experimental.symbolic_shapes import guard_or_false
        >>> guard_or_false(oneflow.ones(2).shape[0] == 2)
        True
    """
    return bool(a)


guard_or_true = guard_size_oblivious = statically_known_true = guard_or_false


def is_concrete_int(a: Any) -> bool:
    """Return whether ``a`` is a plain number: always.

    Example::

        >>> from oneflow.fx.experimental.symbolic_shapes import is_concrete_int
        >>> is_concrete_int(3)
        True
    """
    return True


is_concrete_bool = is_concrete_int


def sym_eq(x: Any, y: Any) -> bool:
    """Return whether two sizes, or two tuples of them, are equal.

    Example::

        >>> from oneflow.fx.experimental.symbolic_shapes import sym_eq
        >>> sym_eq((2, 3), oneflow.ones(2, 3).shape)
        True
    """
    return bool(x == y)
