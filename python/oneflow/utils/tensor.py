"""Tensors of PyTorch and of this package over the same memory."""

from __future__ import annotations

from typing import Any

import oneflow

__all__ = ["from_torch", "to_torch"]


def from_torch(torch_tensor: Any) -> oneflow.Tensor:
    """A tensor over the memory of a ``torch.Tensor``, without its history.

    Raises:
        TypeError: the argument is no ``torch.Tensor``.

    Example::

        >>> import sys
        >>> if "torch" in sys.modules:
        ...     import torch
        ...     x = oneflow.utils.tensor.from_torch(torch.ones(2))
    """
    import torch

    if not isinstance(torch_tensor, torch.Tensor):
        raise TypeError(f"from_torch(): expected a torch.Tensor, got {type(torch_tensor).__name__}")
    return oneflow.from_dlpack(torch_tensor.detach())


def to_torch(flow_tensor: oneflow.Tensor) -> Any:
    """A ``torch.Tensor`` over the memory of a tensor, without its history. Needs PyTorch.

    Raises:
        TypeError: the argument is no tensor.

    Example::

        >>> import sys
        >>> if "torch" in sys.modules:
        ...     y = oneflow.utils.tensor.to_torch(oneflow.ones(2))
    """
    import torch

    if not isinstance(flow_tensor, oneflow.Tensor):
        raise TypeError(f"to_torch(): expected an oneflow.Tensor, got {type(flow_tensor).__name__}")
    if flow_tensor.is_global:
        raise RuntimeError("to_torch(): a global tensor has no PyTorch form; take its part with to_local()")
    return torch.from_dlpack(flow_tensor.detach())
