"""Distinct elements, bins and finite differences: compositions of ops whose results depend on their arguments' form."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from oneflow import _oneflow, return_types
from oneflow._base.global_layouts import replicate_like
from oneflow._oneflow import Tensor


def _results(values: Tensor, inverse: Tensor, counts: Tensor, return_inverse: bool, return_counts: bool) -> Any:
    out = [values, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
    return tuple(out) if len(out) > 1 else values


def _starts(differs: Tensor) -> Tensor:
    """Marks of the entries that differ from the one before them, and of the first."""
    return _oneflow.cat([differs.new_ones((1,)), differs])


def _groups(differs: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """From marks where an entry differs from the one before: first of each group, group of each entry, group sizes."""
    starts = _starts(differs)
    group = starts.cumsum(0) - 1
    first = starts.nonzero().reshape(-1)
    counts = _oneflow.cat([first[1:], first.new_full((1,), n)]) - first
    return first, group, counts


def _rows(input: Tensor, dim: int) -> Tensor:
    return input.movedim(dim, 0).reshape(input.shape[dim], -1)


def _differ(rows: Tensor) -> Tensor:
    return (rows[1:] != rows[:-1]).any(1)


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements (of the flattened tensor) or, with ``dim``, the distinct slices along it, in order.

    Args:
        input: any tensor.
        sorted: the result is in ascending order in either case.
        return_inverse: also the place in the result of every element (slice).
        return_counts: also how often each occurs.
        dim: the dimension whose slices are compared.

    >>> import oneflow
    >>> oneflow.unique(oneflow.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    if dim is None:
        flat, shape = input.reshape(-1), input.shape
        n = flat.shape[0]
        if n == 0:
            empty = _oneflow.empty(0, dtype=_oneflow.int64, device=input.device)
            return _results(flat.clone(), empty.reshape(shape), empty, return_inverse, return_counts)
        values, order = _oneflow.sort(flat, stable=True)
        if not (return_inverse or return_counts):
            return values[_starts(values[1:] != values[:-1])]
        first, group, counts = _groups(values[1:] != values[:-1], n)
        inverse = group.new_empty((n,)).index_copy_(0, order, group).reshape(shape) if return_inverse else group
        return _results(values[first], inverse, counts, return_inverse, return_counts)
    dim = _wrapped(dim, input.dim())
    n = input.shape[dim]
    if n == 0:
        if any(s == 0 for i, s in enumerate(input.shape) if i != dim):
            raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
        empty = _oneflow.empty(0, dtype=_oneflow.int64, device=input.device)
        return _results(input.new_empty(input.shape), empty, empty, return_inverse, return_counts)
    if input.numel() == 0:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    rows = _rows(input.detach(), dim)
    # Sorting by the last column first and stably leaves the rows in the order of their first columns.
    order = replicate_like(input, _oneflow.arange(n, device=input.device))
    for column in range(rows.shape[1] - 1, -1, -1):
        order = order[_oneflow.argsort(rows[order, column], stable=True)]
    first, group, counts = _groups(_differ(rows[order]), n)
    inverse = group.new_empty((n,)).index_copy_(0, order, group)
    chosen = input.movedim(dim, 0)[order[first]].movedim(0, dim)
    return _results(chosen, inverse, counts, return_inverse, return_counts)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Of each run of equal elements (slices along ``dim``) the first.

    >>> import oneflow
    >>> oneflow.unique_consecutive(oneflow.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    if dim is None:
        along, where, shape = input.reshape(-1), 0, tuple(input.shape)
    else:
        where = _wrapped(dim, input.dim())
        along, shape = input, (input.shape[where],)
    n = along.shape[where]
    if n == 0:
        empty = _oneflow.empty(0, dtype=_oneflow.int64, device=input.device)
        return _results(along.new_empty(along.shape), empty.reshape(shape), empty, return_inverse, return_counts)
    differs = along[1:] != along[:-1] if along.dim() == 1 else _differ(_rows(along, where))
    if along.dim() == 1 and not (return_inverse or return_counts):
        return along[_starts(differs)]
    first, group, counts = _groups(differs, n)
    chosen = along.movedim(where, 0)[first].movedim(0, where)
    return _results(chosen, group.reshape(shape), counts, return_inverse, return_counts)


def _wrapped(dim: int, n: int) -> int:
    least = max(n, 1)
    if not -least <= dim < least:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-least}, {least - 1}], but got {dim})")
    return dim % least


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Convert indices into a flattened tensor of the given shape to coordinates, one tensor a dimension.

    >>> import oneflow
    >>> oneflow.unravel_index(oneflow.tensor([5]), (2, 3))
    (tensor([1]), tensor([2]))
    """
    if not isinstance(indices, Tensor):
        raise TypeError(f"unravel_index(): argument 'indices' must be Tensor, not {type(indices).__name__}")
    if indices.is_floating_point() or indices.is_complex() or indices.dtype == _oneflow.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, Sequence)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    wrong = [type(size) for size in sizes if not isinstance(size, int)]
    if wrong:
        raise TypeError(f"expected 'shape' sequence to only contain ints, but got {wrong[0]}")
    if any(s < 0 for s in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    # Sizes may be greater than what the dtype of the indices holds.
    indices, out, below = indices.to(_oneflow.int64), [], 1
    for size in reversed(sizes):
        out.append(indices.div(below, rounding_mode="floor") % size)
        below *= size
    return _oneflow.stack(out[::-1], -1).unbind(-1) if out else ()


def _edges(input: Tensor, bins: int, range: Sequence[float] | None) -> Tensor:
    if range is not None:
        low, high = float(range[0]), float(range[1])
    elif input.numel() == 0:
        low, high = 0.0, 1.0
    else:
        low, high = float(input.min().item()), float(input.max().item())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.histogramdd: dimension 0's range [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError("torch.histogramdd: min should not exceed max")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return replicate_like(input, _oneflow.linspace(low, high, bins + 1, dtype=input.dtype, device=input.device))


def histogramdd(
    input: Tensor,
    bins: Any,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Counts of points (rows over the last dimension) in a grid of bins.

    Args:
        input: ``[..., d]`` coordinates.
        bins: the number of bins in every dimension, one number a dimension, or one tensor of edges a dimension.
        range: lower and upper bound of each dimension, one after the other; the data's bounds if left out.
        weight: what each point counts, of the size of ``input`` without the last dimension.
        density: divide by the total and by the bins' volumes.

    Example::

        >>> oneflow.histogramdd(oneflow.tensor([[0.0, 1.0], [1.0, 0.0]]), bins=[2, 2]).hist
        tensor([[0., 1.],
                [1., 0.]])
    """
    if input.dim() < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    d = input.shape[-1]
    points = input.detach().reshape(-1, d)
    given: list[Any] = [bins] * d if isinstance(bins, int) else list(bins)
    if len(given) != d:
        raise RuntimeError(
            f"torch.histogramdd: expected {d} sequences of bin edges for a {d}-dimensional histogram but got "
            f"{len(given)}"
        )
    bounds: list[Any] = [None] * d if range is None else [range[2 * i : 2 * i + 2] for i in builtins.range(d)]
    edges = [
        b.to(points.dtype) if isinstance(b, Tensor) else _edges(points[:, i], b, bounds[i]) for i, b in enumerate(given)
    ]
    sizes = [e.shape[0] - 1 for e in edges]
    place = points.new_zeros((points.shape[0],), dtype=_oneflow.int64)
    inside = points.new_ones((points.shape[0],), dtype=_oneflow.bool)
    for i, e in enumerate(edges):
        x = points[:, i].contiguous()
        inside = inside & (x >= e[0]) & (x <= e[-1])
        # The last bin holds its upper edge too.
        at = (_oneflow.searchsorted(e.contiguous(), x, right=True) - 1).clamp(0, sizes[i] - 1)
        place = place * sizes[i] + at
    amount = points.new_ones((points.shape[0],)) if weight is None else weight.detach().reshape(-1).to(points.dtype)
    amount = _oneflow.where(inside, amount, 0.0)
    hist = points.new_zeros((math.prod(sizes),)).index_add(0, _oneflow.where(inside, place, 0), amount).reshape(sizes)
    if density:
        hist = hist / hist.sum()
        for i, e in enumerate(edges):
            hist = hist / e.diff().reshape([-1 if k == i else 1 for k in builtins.range(d)])
    return return_types.histogramdd((hist, tuple(edges)))


def histogram(
    input: Tensor,
    bins: int | Tensor = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Any = None,
) -> Any:
    """Counts of the elements in bins, and the bins' edges.

    >>> import oneflow
    >>> oneflow.histogram(oneflow.tensor([1., 2., 1.]), bins=2, range=(0., 3.)).hist
    tensor([2., 1.])
    """
    hist, edges = histogramdd(
        input.reshape(-1, 1), [bins], range, None if weight is None else weight.reshape(-1), density
    )
    if out is not None:
        for place, result in zip(out, (hist, edges[0]), strict=True):
            _oneflow.alias_copy(result, out=place)
        return return_types.histogram(out)
    return return_types.histogram((hist, edges[0]))


def gradient(input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Central differences along dimensions: second order inside, one-sided at the edges.

    Args:
        input: values on a grid.
        spacing: one distance, one distance a dimension, or one tensor of coordinates a dimension.
        dim: the dimension or dimensions; all by default.
        edge_order: 1 or 2.

    >>> import oneflow
    >>> oneflow.gradient(oneflow.tensor([1., 4., 9.]))
    (tensor([3., 4., 5.]),)
    """
    n = input.dim()
    spacing = 1 if spacing is None else spacing
    if dim is None and isinstance(spacing, (list, tuple)) and len(spacing) != n:
        raise RuntimeError(f"torch.gradient expected spacing to be unspecified, a scalar, or a list of length {n}")
    dims = list(range(n)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = [_wrapped(d, n) for d in dims]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"dim {dims[-1]} appears multiple times in the list of dims")
    spaces = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    if len(spaces) != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or a list of length equal to 'dim', "
            f"got {len(spaces)}"
        )
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    return tuple(_gradient_along(input, d, s, edge_order) for d, s in zip(dims, spaces, strict=True))


def _gradient_along(x: Tensor, dim: int, spacing: Any, edge_order: int) -> Tensor:
    n = x.shape[dim]

    def at(i: int, length: int = 1) -> Tensor:
        return x.narrow(dim, i % n, length)

    if isinstance(spacing, Tensor) and spacing.dim() > 0:
        if spacing.shape[0] != n:
            raise RuntimeError(
                "torch.gradient expected each tensor in spacing to have the same size as the dimension, "
                f"got {spacing.shape[0]} and {n}"
            )
        steps = spacing.diff()
        first, second, before, last = steps[0], steps[1 % (n - 1)], steps[-2 % (n - 1)], steps[-1]
        a, b = (h.reshape([-1 if d == dim else 1 for d in range(x.dim())]) for h in (steps[:-1], steps[1:]))
        inner = (
            at(0, n - 2) * (-b / (a * (a + b)))
            + at(1, n - 2) * ((b - a) / (a * b))
            + at(2, n - 2) * (a / (b * (a + b)))
        )
    else:
        first = second = before = last = spacing
        inner = (at(2, n - 2) - at(0, n - 2)) / (spacing * 2)
    if edge_order == 1:
        return _oneflow.cat([(at(1) - at(0)) / first, inner, (at(-1) - at(-2)) / last], dim)
    a, b = first, second
    start = at(0) * (-(2 * a + b) / (a * (a + b))) + at(1) * ((a + b) / (a * b)) + at(2) * (-a / (b * (a + b)))
    a, b = before, last
    end = at(-3) * (b / (a * (a + b))) + at(-2) * (-(a + b) / (a * b)) + at(-1) * ((a + 2 * b) / (b * (a + b)))
    return _oneflow.cat([start, inner, end], dim)
