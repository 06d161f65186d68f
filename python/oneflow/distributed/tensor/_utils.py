"""Where a rank's part of a tensor lies."""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.distributed.device_mesh import DeviceMesh
from oneflow.distributed.tensor.placement_types import Placement, to_sbp

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement], skip_offset: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of this rank's part and where it begins; empty on a rank outside the mesh.

    A part without elements begins at the end of the dimension. With ``skip_offset`` the beginnings are an empty tuple.
    """
    place = mesh.get_coordinate()
    if place is None:
        return (0,), ()
    sizes, starts = list(global_shape), [0] * len(global_shape)
    for axis, s in enumerate(to_sbp(placements, mesh.ndim, len(sizes), "compute_local_shape_and_global_offset")):
        if s.dim is not None:
            start, sizes[s.dim] = mesh.placement._part(sizes[s.dim], axis, place[axis])
            starts[s.dim] += start
    if skip_offset:
        return tuple(sizes), ()
    ends = zip(starts, sizes, global_shape, strict=True)
    return tuple(sizes), tuple(start if size else end for start, size, end in ends)
