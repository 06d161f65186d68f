"""The parts of ``torch.fx.experimental`` that programs use to query sizes."""

from oneflow.fx.experimental import symbolic_shapes

__all__ = ["symbolic_shapes"]
