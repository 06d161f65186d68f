"""oneDNN is not used: kernels are the package's own. The switches are kept, so that scripts that set them run."""

from __future__ import annotations

from contextlib import AbstractContextManager

from oneflow._base.refusals import constant
from oneflow.backends._flags import changed

__all__ = ["allow_tf32", "deterministic", "enabled", "flags", "is_available"]

enabled = True
deterministic = False
allow_tf32 = True
fp32_precision = "none"

is_available = constant("oneflow.backends.mkldnn.is_available", False, "it is not used")


def flags(
    enabled: bool | None = None, deterministic: bool | None = None, allow_tf32: bool | None = None
) -> AbstractContextManager[None]:
    """Set the switches inside a ``with``.

    Example::

        >>> with oneflow.backends.mkldnn.flags(enabled=False):
        ...     y = nn.Linear(2, 1)(oneflow.ones(1, 2))
    """
    return changed(__name__, enabled=enabled, deterministic=deterministic, allow_tf32=allow_tf32)
