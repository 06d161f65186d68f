"""``associative_scan``: running results of an associative function, in logarithmically many calls of it.

Neighbours are combined first, the scan of the pairs is found in the same way, and each other result is one more
combination (Blelloch, "Prefix sums and their applications", 1990).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.utils import _pytree as pytree

__all__ = ["associative_scan"]

Combine = Callable[[list[Tensor], list[Tensor]], list[Tensor]]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """Return ``x[0], f(x[0], x[1]), f(f(x[0], x[1]), x[2]), ...`` along a dimension. Gradients flow through it.

    Args:
        combine_fn: an associative function of two values of the kind of ``xs``.
        xs: a tensor, or nested tensors, of one size along ``dim``.
        dim: the dimension.
        reverse: from the last to the first.
        combine_mode: ``"pointwise"``: the function works on each element alone, and gets many steps at once along the
            first dimension; ``"generic"``: it gets a step without the dimension, by :func:`oneflow.vmap`.

    Raises:
        ValueError: arguments of other types, or tensors without the dimension or of different sizes along it.
        AssertionError: the function returns values nested otherwise.

    Example::

        >>> from oneflow._higher_order_ops import associative_scan
        >>> associative_scan(lambda x, y: x * y, oneflow.tensor([1.0, 2.0, 3.0, 4.0]), dim=0)
        tensor([ 1.,  2.,  6., 24.])
    """
    leaves, spec = pytree.tree_flatten(xs)
    _check(combine_fn, leaves, dim, reverse, combine_mode)
    n_dims = leaves[0].dim()
    if not -n_dims <= dim < n_dims:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-n_dims}, {n_dims - 1}], but got {dim})"
        )
    dim %= n_dims
    if any(x.dim() <= dim for x in leaves):
        raise ValueError("All xs leaves must have at least 'dim + 1' dimensions")
    if len({x.shape[dim] for x in leaves}) > 1:
        raise ValueError(
            f"associative_scan: xs leaves must have one size along dim {dim}, got {[list(x.shape) for x in leaves]}"
        )
    steps = [x.movedim(dim, 0) for x in leaves]
    if combine_mode == "generic":
        combine_fn = oneflow.vmap(combine_fn)

    def combine(a: list[Tensor], b: list[Tensor]) -> list[Tensor]:
        made, found = pytree.tree_flatten(combine_fn(pytree.tree_unflatten(a, spec), pytree.tree_unflatten(b, spec)))
        if found != spec:
            raise AssertionError(
                f"associative_scan: combine_fn must return values nested as xs, {spec}, but returned {found}"
            )
        return list(made)

    result = _scan(combine, [x.flip(0) for x in steps] if reverse else steps)
    if reverse:
        result = [x.flip(0) for x in result]
    return pytree.tree_unflatten([x.movedim(0, dim) for x in result], spec)


def _check(combine_fn: Any, leaves: list[Any], dim: Any, reverse: Any, combine_mode: Any) -> None:
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise ValueError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if not all(isinstance(x, Tensor) for x in leaves):
        raise ValueError("xs leaves must be a Tensor")
    if any(x.is_sparse for x in leaves):
        raise ValueError("xs leaves must dense Tensors, consider using `to_dense()`")


def _scan(combine: Combine, steps: list[Tensor]) -> list[Tensor]:
    """The scan along the first dimension."""
    n = steps[0].shape[0]
    if n < 2:
        return steps
    # Results at odd places are those of the pairs.
    odd = _scan(combine, combine([x[:-1:2] for x in steps], [x[1::2] for x in steps]))
    even = [x[:1] for x in steps]
    if n > 2:
        # Each other result is the one before it and one step.
        before = odd if n % 2 else [x[:-1] for x in odd]
        even = [oneflow.cat(pair) for pair in zip(even, combine(before, [x[2::2] for x in steps]), strict=True)]
    return [_interleaved(a, b) for a, b in zip(even, odd, strict=True)]


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    """The rows of two tensors in turn, of which the first may have one more."""
    n = odd.shape[0]
    pairs = oneflow.stack([even[:n], odd], dim=1).flatten(0, 1)
    return oneflow.cat([pairs, even[n:]]) if even.shape[0] > n else pairs
