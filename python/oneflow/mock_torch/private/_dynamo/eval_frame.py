"""``torch._dynamo.eval_frame``."""

from oneflow.compiler import OptimizedModule

__all__ = ["OptimizedModule"]
