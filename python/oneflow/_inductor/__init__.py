"""Settings of PyTorch's code generator, which scripts set: stored, and read by nothing."""

from oneflow._inductor import config

__all__ = ["config"]
