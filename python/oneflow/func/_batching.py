"""``vmap``: a function of one sample as a function of a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

Function = Callable[..., Any]


def vmap(
    func: Function,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Function:
    """A function that calls ``func`` on every slice of its inputs and stacks the results.

    The slices are taken one after the other: the results are those of a loop, gradients included, and so is the time.

    Args:
        func: of tensors or nests of them, returns a tensor or a nest of tensors.
        in_dims: the dimension of each argument to take slices along; None gives the argument whole. One number for
            all arguments, or a nest like the arguments.
        out_dims: where the batch stands in the results; a number or a nest like the results.
        randomness: "same" draws the same numbers for every slice, "different" goes on; "error" is accepted.
        chunk_size: accepted.

    Raises:
        ValueError: no argument has slices, or arguments differ in their number.

    Example::

        >>> oneflow.func.vmap(oneflow.dot)(oneflow.ones(2, 3), oneflow.ones(2, 3))
        tensor([3., 3.])
    """
    if randomness not in ("error", "same", "different"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten(args)
        dims = _broadcast(in_dims, args, "in_dims")
        sizes = set()
        for leaf, dim in zip(leaves, dims, strict=True):
            if dim is None:
                continue
            if not isinstance(leaf, Tensor):
                raise ValueError(
                    f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for an input but the "
                    f"input is of type {type(leaf)}. We cannot vmap over non-Tensor arguments, please use None"
                )
            if not -leaf.dim() <= dim < leaf.dim():
                raise ValueError(
                    f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for some input, but that "
                    f"input is a Tensor of dimensionality {leaf.dim()} so expected in_dim to satisfy "
                    f"-{leaf.dim()} <= in_dim < {leaf.dim()}."
                )
            sizes.add(leaf.shape[dim])
        if not sizes:
            raise ValueError(f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): no input has a dimension to map")
        if len(sizes) > 1:
            raise ValueError(
                "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                f"{sorted(sizes)} for the mapped dimension"
            )
        parts = [
            [leaf] * max(sizes) if dim is None else leaf.unbind(dim) for leaf, dim in zip(leaves, dims, strict=True)
        ]
        if sizes == {0}:
            raise ValueError("vmap: the mapped dimension is empty, so that the shape of the result is unknown")
        state = oneflow.get_rng_state() if randomness == "same" else None
        results = []
        for values in zip(*parts, strict=True):
            if state is not None:
                oneflow.set_rng_state(state)
            results.append(func(*tree_unflatten(values, spec), **kwargs))
        return _stacked(results, out_dims, func)

    return call


def _stacked(results: list[Any], out_dims: Any, func: Function) -> Any:
    for leaf in tree_leaves(results[0]):
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(leaf)}."
            )
    dims = iter(_broadcast(out_dims, results[0], "out_dims"))

    def stacked(*slices: Tensor) -> Tensor:
        dim = next(dims)
        return slices[0] if dim is None else oneflow.stack(slices, dim)

    return tree_map(stacked, results[0], *results[1:])


def _broadcast(dims: Any, tree: Any, what: str) -> list[Any]:
    """The dimension of every leaf of ``tree``: one for each of its sub-trees, or one for all."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(tree_leaves(tree))
    if isinstance(tree, dict):
        if not isinstance(dims, dict) or dims.keys() != tree.keys():
            raise ValueError(f"vmap: {what} is not compatible with the structure of the values")
        return [d for key, value in tree.items() for d in _broadcast(dims[key], value, what)]
    if not isinstance(tree, (tuple, list)) or not isinstance(dims, (tuple, list)) or len(dims) != len(tree):
        if isinstance(tree, Tensor) and isinstance(dims, (tuple, list)) and len(dims) == 1:
            return [dims[0]]
        raise ValueError(f"vmap: {what} is not compatible with the structure of the values")
    return [d for dim, value in zip(dims, tree, strict=True) for d in _broadcast(dim, value, what)]


def _name(func: Function) -> str:
    return getattr(func, "__name__", repr(func))
