"""Compute backends: switches and queries under the names of ``torch.backends``.

A switch that has no effect here is kept and read back, so that scripts that set it run; its docstring says so.
"""

from __future__ import annotations

import sys
import types
from contextlib import AbstractContextManager

from oneflow._base import float32_precision
from oneflow.backends import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum, quantized, xnnpack
from oneflow.backends._flags import changed

__all__ = ["cpu", "cuda", "cudnn", "flags", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "quantized", "xnnpack"]

fp32_precision: str


def flags(fp32_precision: str = "none") -> AbstractContextManager[None]:
    """Set the precision of float32 for all backends inside a ``with``: "none", "ieee", "tf32" or "bf16".

    Example::

        >>> with oneflow.backends.flags(fp32_precision="bf16"):
        ...     oneflow.backends.fp32_precision
        'bf16'
    """
    return changed(__name__, fp32_precision=fp32_precision)


class _Settings(types.ModuleType):
    """The module, with the precision of float32 for all backends that set none of their own."""

    @property
    def fp32_precision(self) -> str:
        return float32_precision.precision("generic", "all")

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        float32_precision.set_precision("generic", "all", value)


sys.modules[__name__].__class__ = _Settings
