"""Which dimension of a mesh cuts a tensor first.

A placement of :mod:`oneflow` cuts in the order of its axes. PyTorch's words for a mesh may say another order,
``_StridedShard``: such a tensor lies on a placement with the axes of the mesh in that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneflow import Tensor
from oneflow.distributed.device_mesh import DeviceMesh, axes_of, reordered
from oneflow.distributed.tensor.placement_types import Placement, Shard, _StridedShard, from_sbp, to_sbp

__all__ = ["placements_of", "resolve", "resolve_on"]


def resolve(mesh: DeviceMesh, placements: Sequence[Placement] | None, ndim: int, what: str) -> tuple[Any, list[Any]]:
    """The placement over a mesh, and the SBP of a tensor of ``ndim`` dimensions there.

    Raises:
        ValueError: another number of placements than the mesh has dimensions.
        IndexError: a dimension that the tensor does not have.
        NotImplementedError: a split factor that no dimensions of the mesh make.
    """
    plain, axes = _in_order(mesh.shape, placements, ndim, what)
    layout = to_sbp(plain, mesh.ndim, ndim, what)
    return reordered(mesh, axes), [layout[axis] for axis in axes]


def resolve_on(x_placement: Any, placements: Sequence[Placement], ndim: int, what: str) -> list[Any]:
    """The SBP of a gradient on the placement of its tensor.

    Raises:
        NotImplementedError: the mesh cuts it in another order than the tensor.
    """
    mesh, own = axes_of(x_placement)
    shape = x_placement.hierarchy if mesh is None else mesh.shape
    plain, axes = _in_order(shape, placements, ndim, what)
    layout = [to_sbp(plain, len(shape), ndim, what)[axis] for axis in own]
    if own != axes and _words(shape, layout, own) != tuple(placements):
        raise NotImplementedError(
            f"{what}: gradients that lie as {tuple(placements)} are not supported for a tensor whose dimensions are "
            f"cut over those of the mesh in the order {own}"
        )
    return layout


def placements_of(x: Tensor) -> tuple[Placement, ...]:
    """The SBP of a global tensor in PyTorch's words."""
    mesh, axes = axes_of(x.placement)
    return from_sbp(x.sbp) if mesh is None else _words(mesh.shape, x.sbp, axes)


def _in_order(
    shape: Sequence[int], placements: Sequence[Placement] | None, ndim: int, what: str
) -> tuple[list[Placement] | None, tuple[int, ...]]:
    """Placements without split factors, and the order in which dimensions of a mesh of this shape cut."""
    axes = tuple(range(len(shape)))
    if placements is None or not any(isinstance(p, _StridedShard) for p in placements):
        return None if placements is None else list(placements), axes
    plain = [Shard(p.dim) if isinstance(p, _StridedShard) else p for p in placements]
    # Checks the number and the dimensions.
    to_sbp(plain, len(shape), ndim, what)
    order = list(axes)
    for axis in reversed(axes):
        p = placements[axis]
        if not isinstance(p, _StridedShard):
            continue
        cut, at = 1, order.index(axis)
        order.remove(axis)
        while cut < p.split_factor and at < len(order):
            q = plain[order[at]]
            if isinstance(q, Shard) and q.dim % ndim == p.dim % ndim:
                cut *= shape[order[at]]
            at += 1
        if cut != p.split_factor:
            raise NotImplementedError(
                f"{what}: {p!r} for dimension {axis} of a mesh of shape {tuple(shape)} is not supported with "
                f"{tuple(placements)}; a split factor is the product of the sizes of later dimensions that cut the same"
            )
        order.insert(at, axis)
    return plain, tuple(order)


def _words(shape: Sequence[int], layout: Sequence[Any], axes: tuple[int, ...]) -> tuple[Placement, ...]:
    """The placements of a tensor whose dimensions are cut over those of the mesh in the order ``axes``."""
    found: list[Placement] = list(from_sbp(layout))
    for at, axis in enumerate(axes):
        s, cut, is_late = layout[at], 1, False
        for before, earlier in enumerate(axes[:at]):
            if s.dim is not None and earlier > axis and layout[before].dim == s.dim:
                cut, is_late = cut * shape[earlier], True
        if is_late:
            found[at] = _StridedShard(s.dim, split_factor=cut)
    return tuple(found[axes.index(axis)] for axis in range(len(axes)))
