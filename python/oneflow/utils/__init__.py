"""Helpers around training: data loading, removable hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneflow import Tensor, _oneflow
from oneflow._base.lazy import LazyNames as _LazyNames
from oneflow.overrides import _disabled_torch_dispatch_impl
from oneflow.utils import hooks

if TYPE_CHECKING:
    from oneflow.utils import data

__all__ = ["checkpoint", "data", "hooks", "swap_tensors"]

_LAZY = (
    "_mode_utils",
    "_python_dispatch",
    "_pytree",
    "benchmark",
    "checkpoint",
    "collect_env",
    "cpp_extension",
    "data",
    "deterministic",
    "dlpack",
    "flop_counter",
    "global_view",
    "module_tracker",
    "tensor",
)


def _ask_classes(*call: Any) -> Any:
    """Ask the classes of an op's operands (``__torch_dispatch__``); loaded with the first such call."""
    from oneflow.utils import _python_dispatch

    return _python_dispatch._ask_classes(*call)


_oneflow._C._set_dispatch(_ask_classes, _disabled_torch_dispatch_impl)


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
    kept = [(t.grad, t.requires_grad, t.__class__, dict(t.__dict__)) for t in (t1, t2)]
    for t in (t1, t2):
        t.grad = None
        t.requires_grad_(False)
    _oneflow._C._swap_data(t1, t2)
    for t, (grad, requires_grad, cls, attributes) in zip((t2, t1), kept, strict=True):
        t.requires_grad_(requires_grad)
        t.__class__ = cls
        t.__dict__.clear()
        t.__dict__.update(attributes)
        _oneflow._C._keep_attributes(t)
        t.grad = grad


_lazy = _LazyNames(__name__, _LAZY)


def __getattr__(name: str) -> Any:
    return _lazy.find(name)


def __dir__() -> list[str]:
    return _lazy.dir()
