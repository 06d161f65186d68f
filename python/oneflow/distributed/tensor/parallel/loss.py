"""Losses over split classes, where PyTorch keeps them."""

from __future__ import annotations

from oneflow.distributed.tensor.parallel._loss import loss_parallel

__all__ = ["loss_parallel"]
