"""oneDNN is not used: kernels are the package's own. The switches are kept, so that scripts that set them run.

One has an effect: ``matmul.fp32_precision = "bf16"`` lets products of float32 on the CPU round their operands to
bfloat16, as :func:`oneflow.set_float32_matmul_precision` does with "medium". Convolutions and the steps of
recurrent layers are computed in float32 whatever ``conv.fp32_precision`` and ``rnn.fp32_precision`` allow.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator

from oneflow._base import float32_precision
from oneflow._base.refusals import constant
from oneflow.backends._flags import changed

__all__ = ["allow_tf32", "conv", "deterministic", "enabled", "flags", "is_available", "matmul", "rnn"]

enabled = True
deterministic = False
allow_tf32 = True
fp32_precision: str
conv = float32_precision.Switch("mkldnn", "conv")
matmul = float32_precision.Switch("mkldnn", "matmul")
rnn = float32_precision.Switch("mkldnn", "rnn")

is_available = constant("oneflow.backends.mkldnn.is_available", False, "it is not used")


class _Settings(types.ModuleType):
    """The module, with the precision of all its ops."""

    @property
    def fp32_precision(self) -> str:
        return float32_precision.precision("mkldnn", "all")

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        float32_precision.set_precision("mkldnn", "all", value)


sys.modules[__name__].__class__ = _Settings


@contextlib.contextmanager
def flags(
    enabled: bool | None = None,
    deterministic: bool | None = None,
    allow_tf32: bool | None = None,
    fp32_precision: str | None = None,
) -> Iterator[None]:
    """Set the switches inside a ``with``.

    Example::

        >>> with oneflow.backends.mkldnn.flags(fp32_precision="bf16"):
        ...     y = nn.Linear(64, 64)(oneflow.ones(64, 64))
    """
    switches = {"enabled": enabled, "deterministic": deterministic, "allow_tf32": allow_tf32}
    with changed(__name__, **switches), float32_precision.within("mkldnn", "all", fp32_precision):
        yield
