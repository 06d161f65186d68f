"""Tensors of a module by name: put another one in place, and give the former back."""

from __future__ import annotations

from typing import Any

from oneflow import Tensor
from oneflow.nn.modules.module import Module

__all__ = ["swap_tensor"]

_MISSING: Any = object()


def swap_tensor(module: Module, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Put ``tensor`` in the place of a module's parameter, buffer or attribute; return what was there.

    Raises:
        TypeError: ``module`` or ``tensor`` is of another class.
        KeyError: the name is empty or contains a dot.
        AttributeError: there is nothing of this name, and ``allow_missing`` is False.
    """
    if not isinstance(module, Module):
        raise TypeError(f"swap_tensor(): {module} is not an instance of torch.nn.Module")
    if tensor is not None and tensor is not _MISSING and not isinstance(tensor, Tensor):
        raise TypeError(f"swap_tensor(): {tensor} is not an instance of torch.Tensor")
    if not name or "." in name:
        raise KeyError(f"swap_tensor(): tensor name can't be empty or contain '.', got {name!r}")
    for held in (module._parameters, module._buffers):
        if name in held:
            before = held[name]
            if tensor is _MISSING:
                del held[name]
            else:
                held[name] = tensor
            return before
    before = getattr(module, name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if tensor is _MISSING:
        if before is not _MISSING:
            delattr(module, name)
    else:
        setattr(module, name, tensor)
    return before
