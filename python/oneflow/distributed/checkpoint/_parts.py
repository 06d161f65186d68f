"""The part of an entry that this rank holds."""

from __future__ import annotations

import oneflow
from oneflow import Tensor
from oneflow.distributed.tensor import _layouts
from oneflow.distributed.tensor.placement_types import is_partial

__all__ = ["Box", "box_of", "part_of"]

# A part of a tensor: where it begins and how large it is.
Box = tuple[tuple[int, ...], tuple[int, ...]]


def box_of(x: Tensor) -> Box | None:
    """The part of a global tensor that this rank holds; None on a rank outside."""
    ranks = x.placement.ranks
    here = oneflow.env.get_rank()
    if here not in ranks.reshape(-1).tolist():
        return None
    at = [int(i[0]) for i in (ranks == here).nonzero()]
    starts, sizes = [0] * x.dim(), list(x.shape)
    for axis, s in enumerate(x.sbp):
        if s.dim is not None:
            start, sizes[s.dim] = x.placement._part(sizes[s.dim], axis, at[axis])
            starts[s.dim] += start
    return tuple(starts), tuple(sizes)


def part_of(name: str, value: Tensor, loads: bool = False) -> tuple[Tensor, Box] | None:
    """The elements that this rank holds, as a local tensor that shares their memory, and where they are; None outside.

    Partial values are reduced to be saved, and cannot be loaded into.
    """
    value = value.detach()
    shape = tuple(value.shape)
    if not value.is_global:
        found: tuple[Tensor, Box] = (value, ((0,) * len(shape), shape))
    else:
        if any(is_partial(s) for s in value.sbp):
            if loads:
                raise ValueError(f"load: entry {name!r} is partial ({value.sbp}), which cannot be loaded into")
            value = value.to_global(sbp=[oneflow.sbp.broadcast if s.dim is None else s for s in value.sbp])
        box = box_of(value)
        if box is None:
            return None
        found = (_layouts.local_part(value), box)
    if found[0].is_meta:
        if loads:
            raise ValueError(f"load: entry {name!r} is on the meta device; make it with to_empty first")
        raise ValueError(f"save: entry {name!r} is on the meta device and has no elements")
    return found
