"""Weights of convolutions in another memory format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import oneflow

if TYPE_CHECKING:
    from oneflow import nn

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

M = TypeVar("M", bound="nn.Module")


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Store the weights of all two-dimensional convolutions of ``module`` in ``memory_format``; returns ``module``.

    Args:
        module: a module and what it contains.
        memory_format: ``oneflow.channels_last`` or ``oneflow.contiguous_format``.

    Example::

        >>> conv = oneflow.nn.Conv2d(3, 4, 3)
        >>> conv = oneflow.nn.utils.convert_conv2d_weight_memory_format(conv, oneflow.channels_last)
        >>> conv.weight.is_contiguous(memory_format=oneflow.channels_last)
        True
    """
    return _convert(module, memory_format, (oneflow.nn.Conv2d, oneflow.nn.ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Store the weights of all three-dimensional convolutions of ``module`` in ``memory_format``; returns ``module``.

    Args:
        module: a module and what it contains.
        memory_format: ``oneflow.channels_last_3d`` or ``oneflow.contiguous_format``.

    Example::

        >>> conv = oneflow.nn.Conv3d(3, 4, 3)
        >>> conv = oneflow.nn.utils.convert_conv3d_weight_memory_format(conv, oneflow.channels_last_3d)
        >>> conv.weight.is_contiguous(memory_format=oneflow.channels_last_3d)
        True
    """
    return _convert(module, memory_format, (oneflow.nn.Conv3d, oneflow.nn.ConvTranspose3d))


def _convert(module: M, memory_format: Any, kinds: tuple[type, ...]) -> M:
    for part in module.modules():
        if isinstance(part, kinds):
            weight: Any = part.weight
            with oneflow.no_grad():
                weight.data = weight.detach().clone(memory_format=memory_format)
    return module
