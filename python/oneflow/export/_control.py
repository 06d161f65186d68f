"""Control flow of exported programs: what nodes with subgraphs call. One result comes bare, several as a tuple."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import oneflow
from oneflow import Tensor

Branch = Callable[..., Any]


def _bare(results: Sequence[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


def _decided(predicate: Any) -> bool | None:
    """The value of a condition; None if it depends on the data of a program that is being traced."""
    if isinstance(predicate, Tensor) and predicate.is_lazy:
        try:
            return bool(predicate)
        except RuntimeError:
            return None
    return bool(predicate)


def cond(predicate: Any, if_true: Branch, if_false: Branch, operands: Sequence[Any] = ()) -> Any:
    """Run one of two branches. In a trace that does not know the condition both run, and it chooses among results."""
    decided = _decided(predicate)
    if decided is not None:
        return _bare((if_true if decided else if_false)(*operands))
    yes, no = if_true(*operands), if_false(*operands)
    for a, b in zip(yes, no, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ValueError(f"cond: the branches return {a.dtype} {list(a.shape)} and {b.dtype} {list(b.shape)}")
    return _bare([oneflow.where(predicate, a, b) for a, b in zip(yes, no, strict=True)])


def while_loop(condition: Branch, body: Branch, carried: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    """Run the body on what is carried for as long as the condition holds of it."""
    state = tuple(carried)
    while bool(condition(*state, *more)[0]):
        state = tuple(body(*state, *more))
    return _bare(state)


def map_impl(body: Branch, xs: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    """Run the body on each row of the tensors; stack what it returns."""
    if xs[0].shape[0] == 0:
        raise ValueError("map: the tensors have no rows, so that the sizes of the result are not known")
    rows = [body(*row, *more) for row in zip(*(x.unbind(0) for x in xs), strict=True)]
    return _bare([oneflow.stack(column) for column in zip(*rows, strict=True)])


# The names that archives give them.
CONTROL: dict[str, Callable[..., Any]] = {
    f"torch.ops.higher_order.{function.__name__}": function for function in (cond, while_loop, map_impl)
}
