"""``torch._inductor``: settings of PyTorch's code generator, see :mod:`oneflow._inductor`."""

from oneflow._inductor import config

__all__ = ["config"]
