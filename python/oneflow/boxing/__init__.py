"""Settings of the collectives that change layouts, under OneFlow's names."""

from __future__ import annotations

from oneflow.boxing import nccl

__all__ = ["nccl"]
