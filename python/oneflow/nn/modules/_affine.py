"""The base of norms that learn a scale and a shift."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn import init
from oneflow.nn.modules.module import Module
from oneflow.nn.parameter import Parameter


class Affine(Module):
    """Base of norms with a ``weight`` and a ``bias``, either of which may be left out."""

    weight: Tensor | None
    bias: Tensor | None

    def _make_affine(self, sizes: Any, weight: bool, bias: bool, **place: Any) -> None:
        for name, wanted in (("weight", weight), ("bias", weight and bias)):
            if wanted:
                setattr(self, name, Parameter(oneflow.empty(sizes, **place)))
            else:
                self.register_parameter(name, None)

    def reset_parameters(self) -> None:
        """Set the scale to one and the shift to zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)
