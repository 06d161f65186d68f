"""The parts of ``torch.fx.experimental`` that programs use: sizes, folded constants, calls in one form."""

from oneflow.fx.experimental import symbolic_shapes

__all__ = ["symbolic_shapes"]
