"""Functions of any number of tensors: those that take lists are ops, this file accepts them as arguments."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from oneflow import _oneflow
from oneflow._base import conventions, wording
from oneflow._base.global_layouts import replicate_like
from oneflow._oneflow import Size, Tensor


def _listed(tensors: tuple[Any, ...]) -> list[Tensor]:
    """``f(a, b)`` and ``f([a, b])`` are the same call."""
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """The tensors expanded to their common size.

    >>> import oneflow
    >>> oneflow.broadcast_tensors(oneflow.zeros(2, 1), oneflow.ones(2))[1]
    tensor([[1., 1.],
            [1., 1.]])
    """
    listed = _listed(tensors)
    if not listed and conventions.are_oneflows():
        raise RuntimeError("broadcast_tensors(): tensors should not be empty.")
    return _oneflow._C.broadcast_tensors(listed)


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """The size that tensors of these sizes broadcast to.

    >>> import oneflow
    >>> oneflow.broadcast_shapes((2, 1), (3,))
    oneflow.Size([2, 3])
    """
    if not shapes and conventions.are_oneflows():
        raise RuntimeError("broadcast_shapes(): shapes should not be empty.")
    sizes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    out: list[int] = [1] * max((len(s) for s in sizes), default=0)
    for size in sizes:
        for i in range(-1, -1 - len(size), -1):
            if size[i] < 0:
                raise RuntimeError(f"Trying to create tensor with negative dimension ({size[i]}): ({size[i]})")
            if size[i] in (1, out[i]):
                continue
            if out[i] != 1:
                raise wording.error(
                    RuntimeError, f"Shape mismatch: objects cannot be broadcast to a single shape: {sizes}"
                )
            out[i] = size[i]
    return Size(out)


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinates of a grid: each vector along its own dimension, repeated along the others.

    Args:
        tensors: vectors (or numbers), as arguments or as one list.
        indexing: ``"ij"`` (the default), or ``"xy"``, which exchanges the first two dimensions.

    >>> import oneflow
    >>> oneflow.meshgrid(oneflow.tensor([1, 2]), oneflow.tensor([3, 4]), indexing="ij")[1]
    tensor([[3, 4],
            [3, 4]])
    """
    return _oneflow._C.meshgrid(_listed(tensors), indexing=indexing)


def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with the tensors (numbers, rows, matrices) as blocks on its diagonal.

    >>> import oneflow
    >>> oneflow.block_diag(oneflow.tensor([[1]]), oneflow.tensor([[2, 3]]))
    tensor([[1, 0, 0],
            [0, 2, 3]])
    """
    return _oneflow._C.block_diag(list(tensors))


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Every combination of one element of each vector, a row each.

    >>> import oneflow
    >>> oneflow.cartesian_prod(oneflow.tensor([1, 2]), oneflow.tensor([3]))
    tensor([[1, 3],
            [2, 3]])
    """
    return _oneflow._C.cartesian_prod(list(tensors))


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Combinations of ``r`` elements of a vector, a row each, in the order of ``itertools``.

    >>> import oneflow
    >>> oneflow.combinations(oneflow.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if input.dim() != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty((0,))
    # Masks over the grid of all r-tuples would hold n ** r numbers; the places are known without looking at the data.
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(choose(range(input.shape[0]), r))
    index = _oneflow.tensor(places, dtype=_oneflow.int64, device=input.device).reshape(len(places), r)
    return input[replicate_like(input, index)]


def _at_least(op: Any, tensors: tuple[Any, ...]) -> Any:
    if len(tensors) == 1 and not isinstance(tensors[0], (list, tuple)):
        return op(tensors[0])
    return tuple(op(t) for t in _listed(tensors))


def atleast_1d(*tensors: Any) -> Any:
    """The tensors with one dimension at least.

    Example::

        >>> oneflow.atleast_1d(oneflow.tensor(1.0))
        tensor([1.])
    """
    return _at_least(_oneflow._C.atleast_1d, tensors)


def atleast_2d(*tensors: Any) -> Any:
    """The tensors with two dimensions at least: vectors become rows.

    Example::

        >>> oneflow.atleast_2d(oneflow.tensor([1.0, 2.0]))
        tensor([[1., 2.]])
    """
    return _at_least(_oneflow._C.atleast_2d, tensors)


def atleast_3d(*tensors: Any) -> Any:
    """The tensors with three dimensions at least.

    Example::

        >>> oneflow.atleast_3d(oneflow.tensor([1.0, 2.0])).shape
        oneflow.Size([1, 2, 1])
    """
    return _at_least(_oneflow._C.atleast_3d, tensors)


def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """In place: the sizes of another tensor, with more memory where needed.

    Example::

        >>> oneflow.resize_as_(oneflow.ones(4), oneflow.ones(2, 2)).shape
        oneflow.Size([2, 2])
    """
    return input.resize_as_(the_template, memory_format=memory_format)


def zero_(input: Tensor) -> Tensor:
    """Fill ``input`` with zeros in place.

    Example::

        >>> oneflow.zero_(oneflow.ones(2))
        tensor([0., 0.])
    """
    return input.zero_()
