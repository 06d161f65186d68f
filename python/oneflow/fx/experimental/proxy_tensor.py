"""Whether a trace of tensors is being made, for programs that ask."""

from __future__ import annotations

__all__ = ["get_proxy_mode"]


def get_proxy_mode() -> None:
    """None: :mod:`oneflow.fx` records calls of proxies, and no mode that replaces tensors is ever on.

    Example::

        >>> from oneflow.fx.experimental.proxy_tensor import get_proxy_mode
        >>> get_proxy_mode() is None
        True
    """
