"""``torch.fx.proxy``."""

from oneflow.fx import Proxy

__all__ = ["Proxy"]
