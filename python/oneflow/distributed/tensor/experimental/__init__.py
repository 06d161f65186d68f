"""Context parallelism by PyTorch's names: ``torch.distributed.tensor.experimental``."""

from __future__ import annotations

from oneflow.distributed.tensor.experimental._context_parallel._attention import context_parallel

__all__ = ["context_parallel"]
