"""Branches and loops as functions, under the names that PyTorch's programs for compilers use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oneflow import Tensor
from oneflow.utils._pytree import tree_structure


def _truth(op: str, value: Any) -> bool:
    """The truth of a number, or of a tensor of one."""
    if isinstance(value, Tensor) and value.numel() != 1:
        raise RuntimeError(f"{op}(): expected a bool or a tensor of one element, got shape {tuple(value.shape)}")
    if not isinstance(value, (Tensor, bool, int, float)):
        raise RuntimeError(f"{op}(): expected a bool or a tensor of one element, got {type(value).__name__}")
    return bool(value)


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """Return ``true_fn(*operands)`` if ``pred`` holds, else ``false_fn(*operands)``. Gradients flow through the call.

    A graph that is traced takes no branch on values: there it raises, as any read of a value does.

    Args:
        pred: a bool, a number, or a tensor of one element.
        operands: tuple or list of arguments.

    Raises:
        RuntimeError: ``pred`` or ``operands`` is something else.

    Example::

        >>> x = oneflow.tensor([4.0])
        >>> oneflow.cond(x.sum() > 0, lambda x: x.sqrt(), lambda x: -x, (x,))
        tensor([2.])
    """
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("cond(): expected true_fn and false_fn to be callable")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"cond(): expected operands to be a tuple or a list, got {type(operands).__name__}")
    return (true_fn if _truth("cond", pred) else false_fn)(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """Call ``body_fn`` on its own results as long as ``cond_fn`` of them holds; return the last results.

    Args:
        carried_inputs: the arguments of the first calls; ``body_fn`` returns as many values.

    Raises:
        RuntimeError: ``cond_fn`` returns no truth, or ``body_fn`` returns a nest of another shape.

    Example::

        >>> oneflow.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (oneflow.tensor(0), oneflow.ones(1)))
        (tensor(3), tensor([8.]))
    """
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"while_loop(): expected a tuple or a list, got {type(carried_inputs).__name__}")
    values = tuple(carried_inputs)
    shape = tree_structure(values)
    while _truth("while_loop", cond_fn(*values)):
        made = body_fn(*values)
        values = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        if tree_structure(values) != shape:
            raise RuntimeError(f"while_loop(): body_fn returned {tree_structure(values)}, it was given {shape}")
    return values
