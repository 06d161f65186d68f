"""How transformers begin: random matrices, biases of zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow import Tensor, nn


def small(weight: Tensor) -> Tensor:
    """Draw with standard deviation 0.02, as GPT-2 and BERT do."""
    return nn.init.normal_(weight, std=0.02)


def init_linear(model: nn.Module, draw: Callable[[Tensor], Any] = small) -> None:
    """Draw the weights of all linear layers and tables of ``model``, and set biases to zero.

    Example::

        >>> from oneflow.models.layers import init_linear
        >>> layer = nn.Linear(2, 2)
        >>> init_linear(layer)
        >>> layer.bias.detach()
        tensor([0., 0.])
    """
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            draw(module.weight)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
