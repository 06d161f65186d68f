"""Gathering, scattering, slicing and reshaping by the shape of another tensor."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._extra import _checks
from oneflow._extra._checks import expect

# Functions that take a placement have no stub.
_made: Any = oneflow


def cast(input: Tensor, dtype: oneflow.dtype, pin_memory: bool = False) -> Tensor:
    """``input`` with elements of another dtype.

    Example::

        >>> oneflow.cast(oneflow.ones(1), oneflow.int64)
        tensor([1])
    """
    made = input.to(dtype)
    return made.pin_memory() if pin_memory else made


def slice(input: Tensor, slice_tup_list: Sequence[Any]) -> Tensor:
    """Part of every dimension: ``(start, stop, step)`` each, from the first dimension on; ``None`` as Python has it.

    Example::

        >>> oneflow.slice(oneflow.arange(12).reshape(3, 4), [[0, 2, 1], [1, 4, 2]])
        tensor([[1, 3],
                [5, 7]])
    """
    return input[_key(input, slice_tup_list)]


def slice_update(input: Tensor, update: Tensor, slice_tup_list: Sequence[Any]) -> Tensor:
    """Write ``update`` into a part of ``input`` in place; see :func:`slice`. Returns ``input``.

    Example::

        >>> oneflow.slice_update(oneflow.zeros(4), oneflow.ones(2), [[1, 3, 1]])
        tensor([0., 1., 1., 0.])
    """
    input[_key(input, slice_tup_list)] = update
    return input


def _key(input: Tensor, triples: Sequence[Any]) -> tuple[builtins.slice, ...]:
    expect(
        len(triples) <= input.dim(),
        f"slice: {len(triples)} triples for a tensor of {input.dim()} dimensions",
        ValueError,
    )
    return tuple(builtins.slice(*(int(n) if n is not None else None for n in triple)) for triple in triples)


def slice_view_1d_contiguous(x: Tensor, start: int, end: int) -> Tensor:
    """The elements ``start`` to ``end`` of a vector, as a view."""
    return x.narrow(0, start, end - start)


def gather_nd(input: Tensor, index: Tensor) -> Tensor:
    """Slices of ``input`` (n_1, ..., n_k, *rest) at the positions ``index`` (*, k): (*, *rest).

    Example::

        >>> oneflow.gather_nd(oneflow.tensor([[1, 2], [3, 4]]), oneflow.tensor([[0, 1], [1, 0]]))
        tensor([2, 3])
    """
    return input[tuple(index.long().unbind(-1))]


def scatter_nd(index: Tensor, update: Tensor, shape: Sequence[int]) -> Tensor:
    """Zeros of ``shape`` with ``update`` added at the positions ``index`` (*, k).

    Example::

        >>> oneflow.scatter_nd(oneflow.tensor([[1], [3]]), oneflow.tensor([10.0, 5.0]), [5])
        tensor([ 0., 10.,  0.,  5.,  0.])
    """
    return _added(update.new_zeros(tuple(shape)), index, update)


def scatternd(index: Tensor, update: Tensor, shape: Sequence[int]) -> Tensor:
    """As :func:`scatter_nd`."""
    return scatter_nd(index, update, shape)


def scatterndlike(like: Tensor, index: Tensor, update: Tensor) -> Tensor:
    """As :func:`scatter_nd`, of the shape of ``like``."""
    return scatter_nd(index, update, like.shape)


def _added(base: Tensor, index: Tensor, update: Tensor) -> Tensor:
    return base.index_put(tuple(index.long().unbind(-1)), update, accumulate=True)


def tensor_scatter_nd_update(tensor: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """A copy of ``tensor`` with ``updates`` written at the positions ``indices`` (*, k).

    Example::

        >>> oneflow.tensor_scatter_nd_update(
        ...     oneflow.zeros(4), oneflow.tensor([[1], [3]]), oneflow.tensor([9.0, 8.0])
        ... )
        tensor([0., 9., 0., 8.])
    """
    expect(
        tensor.dtype == updates.dtype,
        f"The dtype of tensor and updates must be same. Got {tensor.dtype} and {updates.dtype}",
    )
    return tensor.index_put(tuple(indices.long().unbind(-1)), updates)


def tensor_setitem(x: Tensor, index: Any, value: Tensor) -> Tensor:
    """``x[index] = value``, in place; returns ``x``."""
    x[index] = value
    return x


def batch_gather(input: Tensor, indices: Tensor) -> Tensor:
    """Entries ``indices`` (*batch, n) of ``input`` (*batch, m, *rest): (*batch, n, *rest).

    Example::

        >>> oneflow.batch_gather(oneflow.tensor([[1, 2], [3, 4]]), oneflow.tensor([[1, 1], [0, 1]]))
        tensor([[2, 2],
                [3, 4]])
    """
    for name, tensor in (("input", input), ("indices", indices)):
        expect(tensor.dim() > 0, f"The dimension of the {name} tensor should be greater than zero, but got 0")
    _checks.indices("indices", indices)
    expect(
        input.dim() >= indices.dim(),
        "The dimension of the input tensor should be greater than or equal to the dimension of the indices tensor, "
        f"but got {input.dim()} and {indices.dim()}",
    )
    dim = indices.dim() - 1
    _checks.same_sizes("indices tensor", indices, "input tensor", input, dim)
    rest = input.shape[dim + 1 :]
    index = indices.long().reshape(*indices.shape, *([1] * len(rest))).expand(*indices.shape, *rest)
    return input.gather(dim, index)


def dim_gather(input: Tensor, dim: int, index: Tensor, sparse_grad: bool = False) -> Tensor:
    """``input.gather(dim, index)``."""
    return input.gather(dim, index)


def broadcast_like(x: Tensor, like_tensor: Tensor, broadcast_axes: Sequence[int] | None = None) -> Tensor:
    """``x`` expanded to the shape of another tensor.

    Args:
        broadcast_axes: the dimensions that ``x`` lacks; by default the first ones.

    Example::

        >>> oneflow.broadcast_like(oneflow.tensor([1, 2]), oneflow.zeros(2, 3), broadcast_axes=[1])
        tensor([[1, 1, 1],
                [2, 2, 2]])
    """
    if broadcast_axes and x.dim() < like_tensor.dim():
        for axis in sorted(axis % like_tensor.dim() for axis in broadcast_axes):
            x = x.unsqueeze(axis)
    return x.expand(like_tensor.shape)


def reshape_like(x: Tensor, like: Tensor) -> Tensor:
    """``x`` with the sizes of another tensor."""
    expect(
        x.numel() == like.numel(),
        "The element number of the in tensor must be equal to the element number of the like tensor, but got "
        f"{x.numel()} and {like.numel()}",
    )
    return x.reshape(like.shape)


def expand_dims(input: Tensor, dim: int) -> Tensor:
    """``input.unsqueeze(dim)``."""
    return input.unsqueeze(dim)


def split_like(x: Tensor, like: Sequence[Tensor], axis: int) -> list[Tensor]:
    """Parts of ``x`` along ``axis``, as long as the tensors ``like``."""
    first = like[0]
    expect(
        axis < first.dim(),
        f"The axis ({axis}) should be less than the dimension of like ({first.dim()})",
    )
    expect(
        first.dim() <= x.dim(),
        f"The dimension of like ({first.dim()}) should be less than or equal to input ({x.dim()})",
    )
    for i, t in enumerate(like):
        expect(
            t.dim() == first.dim(),
            f"The dimension of like {i} ({t.dim()}) must match the dimension of the first like ({first.dim()})",
        )
        for dim in range(t.dim()):
            expect(
                dim == axis or t.shape[dim] == x.shape[dim],
                f"The size of x ({list(x.shape)}) must match the size of like_i ({list(t.shape)}) at dimension {dim}",
            )
    sizes = [t.shape[axis] for t in like]
    expect(
        sum(sizes) == x.shape[axis],
        f"In a static shape situation, the total size of like ({sum(sizes)}) must be the size of x at dimension {axis} "
        f"({x.shape[axis]})",
    )
    return list(x.split(sizes, axis))


def reduce_sum_like(x: Tensor, like: Tensor, axis: Sequence[int] = ()) -> Tensor:
    """The sum of ``x`` over ``axis``, in the shape of ``like``."""
    expect(
        x.dtype == like.dtype,
        f"Tensors x and like must have the same type, but got {x.dtype} and {like.dtype}",
        TypeError,
    )
    if axis:
        return x.sum(tuple(axis)).reshape(like.shape)
    expect(
        x.shape == like.shape,
        "The shape of the x tensor must be consistent to the shape of the like tensor, but got "
        f"{list(x.shape)} and {list(like.shape)}",
    )
    return x


def unfold_tensor(x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """``x.unfold(dimension, size, step)``."""
    return x.unfold(dimension, size, step)


def unsorted_segment_sum(x: Tensor, segment_ids: Tensor, axis: int, num_segments: int) -> Tensor:
    """Sums of the slices of ``x`` along ``axis`` with the same id: ``num_segments`` of them.

    Args:
        segment_ids: a vector of ids in ``[0, num_segments)``, one a slice.
    """
    sizes = list(x.shape)
    sizes[axis] = num_segments
    return x.new_zeros(sizes).index_add(axis, segment_ids.long(), x)


def unsorted_segment_sum_like(x: Tensor, segment_ids: Tensor, like: Tensor, axis: int) -> Tensor:
    """As :func:`unsorted_segment_sum`, as many as ``like`` has along ``axis``."""
    return unsorted_segment_sum(x, segment_ids, axis, like.shape[axis])


def arg_sort(input: Tensor, direction: str) -> Tensor:
    """Indices that sort the last dimension, "ASCENDING" or "DESCENDING"."""
    if direction not in ("ASCENDING", "DESCENDING"):
        raise RuntimeError(
            f"arg_sort: expected the input direction parameter value is 'ASCENDING' or 'DESCENDING', got {direction!r}"
        )
    return input.argsort(-1, direction == "DESCENDING")


def image_flip(x: Tensor, flip_code: Any) -> Tensor:
    """Images (N, C, H, W) flipped: 0 not at all, 1 left to right, 2 upside down, 3 both; one code or one an image."""
    if not isinstance(flip_code, Tensor):
        flip_code = oneflow.full((x.shape[0],), int(flip_code), device=x.device)
    code = flip_code.reshape(-1, 1, 1, 1)
    x = oneflow.where(code % 2 == 1, x.flip(-1), x)
    return oneflow.where(code >= 2, x.flip(-2), x)


def constant(shape: Sequence[int], value: Any, *, dtype: Any, device: Any = None) -> Tensor:
    """A tensor filled with a number."""
    return oneflow.full(tuple(shape), value, dtype=dtype, device=device)


def tensor_constant(shape: Sequence[int], value: Tensor, *, dtype: Any, device: Any = None) -> Tensor:
    """A tensor filled with the number that a tensor of one element holds."""
    return value.to(device=device, dtype=dtype).reshape(()).expand(tuple(shape)).clone()


def global_constant(shape: Sequence[int], value: Any, *, dtype: Any, placement: Any, sbp: Any) -> Tensor:
    """A global tensor filled with a number."""
    return _made.full(tuple(shape), value, dtype=dtype, placement=placement, sbp=sbp)


def global_tensor_constant(shape: Sequence[int], value: Tensor, *, dtype: Any, placement: Any, sbp: Any) -> Tensor:
    """A global tensor filled with the number that a tensor of one element holds."""
    return global_constant(shape, value.item(), dtype=dtype, placement=placement, sbp=sbp)


def global_empty(shape: Sequence[int], *, dtype: Any, placement: Any, sbp: Any) -> Tensor:
    """A global tensor, uninitialised."""
    return _made.empty(tuple(shape), dtype=dtype, placement=placement, sbp=sbp)


def global_arange(
    start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None, placement: Any, sbp: Any
) -> Tensor:
    """A global tensor of equally spaced numbers."""
    if end is None:
        start, end = 0, start
    return _made.arange(start, end, step, dtype=dtype, placement=placement, sbp=sbp)
