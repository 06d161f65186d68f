"""The parts of ``torch.fx.experimental`` that programs ask about sizes with."""

from oneflow.fx.experimental import symbolic_shapes

__all__ = ["symbolic_shapes"]
