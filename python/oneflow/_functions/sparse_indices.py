"""Indices of sparse tensors: as one number each, looked up, and whether what is promised of them is checked."""

from __future__ import annotations

import functools
from typing import Any

import oneflow
from oneflow import Tensor


def entries_at(grad: Tensor, at: Tensor, size: list[int]) -> Tensor:
    """The entries of a dense or sparse tensor at indices; zero where a sparse one has none."""
    if not grad.is_sparse:
        return grad[tuple(at)]
    grad = grad.coalesce()
    have, want = places(grad._indices(), size), places(at, size)
    if have.numel() == 0:
        return grad._values().new_zeros((at.shape[1], *size[at.shape[0] :]))
    near = oneflow.searchsorted(have, want).clamp(max=have.numel() - 1)
    found = (have[near] == want).reshape(-1, *[1] * (len(size) - at.shape[0]))
    return oneflow.where(found, grad._values()[near], 0)


def places(at: Tensor, size: list[int]) -> Tensor:
    """One number for each index, in the order of the indices."""
    place = at.new_zeros((at.shape[1],))
    for row, n in zip(at, size, strict=False):
        place = place * n + row
    return place


def in_order(at: Tensor, size: list[int]) -> bool:
    """Return whether the indices are there once, and in order."""
    place = places(at, size)
    return bool((place[1:] > place[:-1]).all())


class check_sparse_tensor_invariants:
    """Control whether invariants of sparse tensors are checked on construction: for good, in a ``with`` block, or in a
    function that it decorates.

    Args:
        enable: whether they are checked.

    Example::

        >>> with oneflow.sparse.check_sparse_tensor_invariants():
        ...     oneflow.sparse.check_sparse_tensor_invariants.is_enabled()
        True
    """

    _enabled = False

    def __init__(self, enable: bool = True) -> None:
        self._state = enable
        self._before: list[bool] = []

    @staticmethod
    def is_enabled() -> bool:
        """Return whether promises are checked now."""
        return check_sparse_tensor_invariants._enabled

    @staticmethod
    def enable() -> None:
        """Check promises from here on."""
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        """Trust promises from here on."""
        check_sparse_tensor_invariants._enabled = False

    def __enter__(self) -> None:
        self._before.append(check_sparse_tensor_invariants._enabled)
        check_sparse_tensor_invariants._enabled = self._state

    def __exit__(self, *_: object) -> None:
        check_sparse_tensor_invariants._enabled = self._before.pop()

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self._state):
                return function(*args, **kwargs)

        return checked
