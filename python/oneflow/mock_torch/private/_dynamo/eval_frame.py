"""``torch._dynamo.eval_frame``."""

from oneflow.compiler._compile import OptimizedModule

__all__ = ["OptimizedModule"]
