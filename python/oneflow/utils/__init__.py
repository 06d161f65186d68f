"""Helpers around training: data loading, removable hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneflow import Tensor
from oneflow._base.lazy import LazyNames as _LazyNames
from oneflow.utils import hooks

if TYPE_CHECKING:
    from oneflow.utils import data

__all__ = ["checkpoint", "data", "hooks", "swap_tensors"]

_LAZY = (
    "_python_dispatch",
    "_pytree",
    "benchmark",
    "checkpoint",
    "cpp_extension",
    "data",
    "deterministic",
    "dlpack",
    "flop_counter",
    "global_view",
    "module_tracker",
    "tensor",
)


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Swap contents, gradients, classes and attributes of two leaf tensors; references to one then see the other's.

    Raises:
        RuntimeError: one was computed with a gradient.

    Example::

        >>> a, b = oneflow.zeros(2), oneflow.ones(3)
        >>> oneflow.utils.swap_tensors(a, b)
        >>> a, b
        (tensor([1., 1., 1.]), tensor([0., 0.]))
    """
    if not (t1.is_leaf and t2.is_leaf):
        raise RuntimeError("Cannot swap tensors that have a gradient function: their history would be another's")
    kept = [(t.data, t.grad, t.requires_grad, t.__class__, dict(t.__dict__)) for t in (t1, t2)]
    for t, (value, grad, requires_grad, cls, attributes) in zip((t2, t1), kept, strict=True):
        t.grad = None
        t.requires_grad_(False)
        t.data = value
        t.requires_grad_(requires_grad)
        t.grad = grad
        t.__class__ = cls
        t.__dict__.clear()
        t.__dict__.update(attributes)


_lazy = _LazyNames(__name__, _LAZY)


def __getattr__(name: str) -> Any:
    return _lazy.find(name)


def __dir__() -> list[str]:
    return _lazy.dir()
