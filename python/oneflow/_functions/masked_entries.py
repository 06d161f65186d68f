"""Reductions over the entries of sparse COO and CSR tensors that a mask keeps. Only a mask that broadcasts is dense."""

from __future__ import annotations

import math
from typing import Any

import oneflow
from oneflow import Tensor

_HOW = {"sum": "sum", "prod": "prod", "amax": "amax", "amin": "amin"}


def reduced(
    name: str, input: Tensor, dims: tuple[int, ...], keepdim: bool, dtype: Any, mask: Tensor | None, neutral: float
) -> Tensor:
    """Reduce ``dims`` of a sparse ``input``; an element of the result is an entry where the mask keeps some element.

    Raises:
        RuntimeError: ``input`` has compressed rows, and its dimensions are not kept.
        ValueError: no mask, and the elements that are not entries would count, as in a product.
    """
    if mask is None and name != "sum":
        raise ValueError(f"masked {name} expects explicit mask for {input.layout} tensor input")
    if input.layout is oneflow.sparse_csr:
        if not keepdim:
            raise RuntimeError(f"masked {name}: reductions of CSR tensors with keepdim=False are not supported")
        return reduced(name, input.to_sparse(), dims, keepdim, dtype, mask, neutral).to_sparse_csr()
    places, values = _entries(input) if mask is None else _kept(input, mask)
    if dtype is not None:
        values = values.to(dtype)
    elif name in ("sum", "prod") and not (values.is_floating_point() or values.is_complex()):
        values = values.to(oneflow.int64)
    rest = [d for d in range(input.dim()) if d not in dims]
    keys, inverse = _keys(places[rest], [input.shape[d] for d in rest]).unique(return_inverse=True)
    if not rest and not keys.numel() and name != "sum":
        # The one element of a whole reduction is an entry; other elements that nothing was kept for read as zero.
        keys, out = keys.new_zeros(1), values.new_full((1,), neutral)
    else:
        out = _grouped(name, values, inverse, keys.numel(), neutral)
    shape = [1 if d in dims else n for d, n in enumerate(input.shape)]
    indices = oneflow.zeros(input.dim(), keys.numel(), dtype=oneflow.int64, device=keys.device)
    indices[rest] = _places(keys, [input.shape[d] for d in rest])
    if not keepdim:
        indices, shape = indices[rest], [input.shape[d] for d in rest]
    return oneflow.sparse_coo_tensor(indices, out, shape, is_coalesced=True)


def _grouped(name: str, values: Tensor, group: Tensor, n_groups: int, neutral: float) -> Tensor:
    """Values reduced by the numbers of their groups."""
    narrow = values.dtype
    if narrow == oneflow.bool:
        values = values.to(oneflow.uint8)
    if name == "mean":
        start = values.new_zeros(n_groups)
        counts = start.index_add(0, group, values.new_ones(values.shape))
        return start.index_add(0, group, values) / counts
    start = values.new_full((n_groups,), neutral if narrow != oneflow.bool else 0)
    if name == "sum":
        return start.index_add(0, group, values).to(narrow)
    if values.is_complex():
        # Products of complex numbers in the order of their groups: each round takes one of every group.
        return _complex_products(values, group, start)
    return start.scatter_reduce(0, group, values, _HOW[name], include_self=False).to(narrow)


def _complex_products(values: Tensor, group: Tensor, start: Tensor) -> Tensor:
    order = group.argsort(stable=True)
    group, values = group[order], values[order]
    first = oneflow.searchsorted(group, group)
    round_of = oneflow.arange(group.numel(), device=group.device) - first
    for i in range(int(round_of.max()) + 1 if group.numel() else 0):
        at = round_of == i
        start = start.index_put((group[at],), start[group[at]] * values[at])
    return start


def _entries(t: Tensor) -> tuple[Tensor, Tensor]:
    """The places of all elements of entries, (dimensions, n), and the elements, (n,)."""
    if t.dtype == oneflow.bool and not t.is_coalesced():
        places, counts = _entries(t.to(oneflow.int32))
        return places, counts != 0
    t = t.coalesce()
    indices, values = t.indices(), t.values()
    n_inside = math.prod(values.shape[1:])
    outer = indices.repeat_interleave(n_inside, 1)
    inner = _places(oneflow.arange(n_inside, device=indices.device), list(values.shape[1:]))
    return oneflow.cat([outer, inner.repeat(1, indices.shape[1])]), values.reshape(-1)


def _kept(input: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The places that the mask keeps, and the elements of ``input`` there, zero where it has no entry."""
    if mask.is_sparse and mask.shape == input.shape:
        wanted, yes = _entries(mask)
        wanted = wanted[:, yes]
    else:
        dense = mask.to_dense() if mask.is_sparse else mask
        wanted = dense.expand(input.shape).nonzero().t()
    places, values = _entries(input)
    shape = list(input.shape)
    have, order = _keys(places, shape).sort()
    want = _keys(wanted, shape)
    if not have.numel():
        return wanted, values.new_zeros(want.shape)
    at = oneflow.searchsorted(have, want).clamp(max=have.numel() - 1)
    return wanted, oneflow.where(have[at] == want, values[order[at]], values.new_zeros(()))


def _keys(places: Tensor, shape: list[int]) -> Tensor:
    """Places as numbers, in the order of a contiguous tensor of the shape."""
    keys = oneflow.zeros(places.shape[1], dtype=oneflow.int64, device=places.device)
    for row, n in zip(places, shape, strict=True):
        keys = keys * n + row
    return keys


def _places(keys: Tensor, shape: list[int]) -> Tensor:
    """The inverse of ``_keys``."""
    rows = []
    for n in reversed(shape):
        rows.append(keys % max(n, 1))
        keys = keys // max(n, 1)
    return oneflow.stack(rows[::-1]) if rows else keys.new_zeros(0, keys.numel())
