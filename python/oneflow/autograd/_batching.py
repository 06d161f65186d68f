"""``vmap``: a function of one sample as a function of a batch."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow.utils._pytree import tree_flatten, tree_leaves, tree_unflatten


class _Levels(threading.local):
    # Per call of vmap that this thread is in: its number, how many samples it has, what random ops do.
    open: tuple[tuple[int, int, str], ...] = ()


_levels = _Levels()


def is_batching() -> bool:
    """Return whether this thread is inside vmap, where tensors of one sample have no memory of their own."""
    return bool(_levels.open)


def innermost(tensors: list[Tensor]) -> tuple[int, int, str]:
    """The innermost call of vmap that one of these is a sample of: its number, number of samples, randomness."""
    return next(level for level in reversed(_levels.open) if any(_oneflow._vmap_is_in(t, level[0]) for t in tensors))


def has_samples(value: Any) -> bool:
    """Return whether a nest holds a tensor of one sample of a call of vmap that is open."""
    tensors = [t for t in tree_leaves(value) if isinstance(t, Tensor)]
    return any(_oneflow._vmap_is_in(t, level) for level, _, _ in _levels.open for t in tensors)


Function = Callable[..., Any]


def vmap(
    func: Function,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Function:
    """Return a function that calls ``func`` once, on tensors that represent all slices of its inputs.

    Inside, a tensor has the shape of one slice, and an op on it runs on all of them: as one call if there is a rule
    for it, else as a call a slice. Values cannot be read there.

    Args:
        func: of tensors or nests of them, returns a tensor or a nest of tensors.
        in_dims: the dimension of each argument to slice along; None passes the argument whole. One number for
            all arguments, or a nest like the arguments.
        out_dims: the batch dimension of the results; a number or a nest like the results.
        randomness: what random ops do: "same" draws the same numbers for every slice, "different" others, "error"
            raises RuntimeError.
        chunk_size: how many slices at once; None for all.

    Raises:
        ValueError: no argument has slices, or arguments differ in their number.
        RuntimeError: ``func`` reads values, or writes slices into a tensor that has none.

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
        dims, size = _checked(func, in_dims, args, leaves)
        if chunk_size is None or chunk_size >= size:
            return _run(func, leaves, dims, size, spec, out_dims, randomness, kwargs)
        # The chunks of every leaf; what has no slices goes to every chunk.
        pieces = [None if dim is None else leaf.split(chunk_size, dim) for leaf, dim in zip(leaves, dims, strict=True)]
        results = []
        for start in range(0, size, chunk_size):
            i = start // chunk_size
            chunk = [leaf if of is None else of[i] for leaf, of in zip(leaves, pieces, strict=True)]
            n = min(chunk_size, size - start)
            results.append(_run(func, chunk, dims, n, spec, out_dims, randomness, kwargs))
        return _joined(func, results, out_dims)

    return call


def _checked(func: Function, in_dims: Any, args: Any, leaves: list[Any]) -> tuple[list[int | None], int]:
    """The dimension of every leaf, and the number of slices."""
    head = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): "
    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(
            head + "expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, "
            f"got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap "
            "over a function with no inputs. The latter is unsupported."
        )
    if isinstance(in_dims, (tuple, list)) and len(in_dims) != len(args):
        raise ValueError(
            head + f"in_dims is not compatible with the structure of `inputs`: {len(in_dims)} entries for "
            f"{len(args)} inputs"
        )
    dims = _broadcast(in_dims, args, head + "in_dims is not compatible with the structure of `inputs`")
    sizes = []
    for i, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        if dim is None:
            continue
        if not isinstance(dim, int):
            raise ValueError(head + f"Got in_dim={dim} for an input but in_dim must be either an integer dimension.")
        if not isinstance(leaf, Tensor):
            raise ValueError(
                head + f"Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        if type(leaf) is not Tensor:
            from oneflow._base.refusals import refuse_composed

            refuse_composed("vmap", leaf)
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(
                head + f"Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {leaf.dim()} "
                f"so expected in_dim to satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}."
            )
        dims[i] = dim % leaf.dim()
        sizes.append(leaf.shape[dim])
    if not sizes:
        raise ValueError("vmap: at least one input has to have a dimension to map over, but in_dims are all None")
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return dims, sizes[0]


def _run(
    func: Function,
    leaves: list[Any],
    dims: list[int | None],
    size: int,
    spec: Any,
    out_dims: Any,
    randomness: str,
    kwargs: dict[str, Any],
) -> Any:
    _check_out_dims(func, out_dims)
    level = _oneflow._vmap_enter(size, randomness)
    _levels.open = (*_levels.open, (level, size, randomness))
    try:
        slices = [
            leaf if dim is None else _oneflow._vmap_in(leaf, dim, level) for leaf, dim in zip(leaves, dims, strict=True)
        ]
        results, out_spec = tree_flatten(result := func(*tree_unflatten(slices, spec), **kwargs))
        wrong = _incompatible(func, out_dims)
        whole = []
        for t, dim in zip(results, _broadcast(out_dims, result, wrong), strict=True):
            whole.append(_whole(func, t, dim, level, size))
    finally:
        _oneflow._vmap_leave(level)
        _levels.open = _levels.open[:-1]
    return tree_unflatten(whole, out_spec)


def _check_out_dims(func: Function, out_dims: Any) -> None:
    for dim in tree_leaves(out_dims):
        if dim is not None and not isinstance(dim, int):
            raise ValueError(
                f"vmap({_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
                "collection of ints representing where in the outputs the vmapped dimension should appear."
            )


def _incompatible(func: Function, out_dims: Any) -> str:
    return (
        f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
        "`outputs`"
    )


def _whole(func: Function, t: Any, dim: int | None, level: int, size: int) -> Any:
    """All slices of one result."""
    if not isinstance(t, Tensor):
        if dim is None:
            return t
        raise ValueError(
            f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(t)}. Did you mean to "
            "set out_dims= to None for output?"
        )
    if dim is None:
        if _oneflow._vmap_is_in(t, level):
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when out_dim is None"
            )
        return t
    if not -t.dim() - 1 <= dim <= t.dim():
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-t.dim() - 1}, {t.dim()}], but got {dim})"
        )
    every = _oneflow._vmap_out(t, level, size)
    return every if dim == 0 else every.movedim(0, dim)


def _joined(func: Function, results: list[Any], out_dims: Any) -> Any:
    """The results of all chunks, one after the other."""
    dims = _broadcast(out_dims, results[0], _incompatible(func, out_dims))
    leaves = [tree_leaves(result) for result in results]
    columns = zip(*leaves, strict=True)
    joined = [c[0] if dim is None else oneflow.cat(list(c), dim) for c, dim in zip(columns, dims, strict=True)]
    return tree_unflatten(joined, tree_flatten(results[0])[1])


def _broadcast(dims: Any, tree: Any, wrong: str) -> list[Any]:
    """The dimension of every leaf of ``tree``: one for each of its sub-trees, or one for all."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(tree_leaves(tree))
    if isinstance(tree, dict):
        if not isinstance(dims, dict) or dims.keys() != tree.keys():
            raise ValueError(wrong)
        return [d for key, value in tree.items() for d in _broadcast(dims[key], value, wrong)]
    if not isinstance(tree, (tuple, list)) or not isinstance(dims, (tuple, list)) or len(dims) != len(tree):
        if isinstance(tree, Tensor) and isinstance(dims, (tuple, list)) and len(dims) == 1:
            return [dims[0]]
        raise ValueError(wrong)
    return [d for dim, value in zip(dims, tree, strict=True) for d in _broadcast(dim, value, wrong)]


def _name(func: Function) -> str:
    return getattr(func, "__name__", repr(func))
