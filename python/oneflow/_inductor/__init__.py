"""Settings of PyTorch's code generator, which scripts set: kept and read back. Nothing reads them."""

from oneflow._inductor import config

__all__ = ["config"]
