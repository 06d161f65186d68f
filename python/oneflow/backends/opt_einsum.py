"""``einsum`` multiplies from left to right: no other order is searched for."""

from __future__ import annotations

__all__ = ["enabled", "get_opt_einsum", "is_available", "strategy"]

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """False: no other order is searched for.

    Example::

        >>> isinstance(oneflow.backends.opt_einsum.is_available(), bool)
        True
    """
    return False


def get_opt_einsum() -> None:
    """None: no module of that name is used.

    Example::

        >>> oneflow.backends.opt_einsum.get_opt_einsum() is None
        True
    """
