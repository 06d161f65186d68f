"""Where a rank's part of a tensor lies."""

from __future__ import annotations

from collections.abc import Sequence

from oneflow.distributed.device_mesh import DeviceMesh
from oneflow.distributed.tensor.placement_types import Placement, to_sbp

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of this rank's part and where it begins; empty on a rank outside the mesh."""
    place = mesh.get_coordinate()
    if place is None:
        return (0,), ()
    sizes, starts = list(global_shape), [0] * len(global_shape)
    for axis, s in enumerate(to_sbp(placements, mesh.ndim, len(sizes), "compute_local_shape_and_global_offset")):
        if s.dim is not None:
            each, more = divmod(sizes[s.dim], mesh.size(axis))
            starts[s.dim] += each * place[axis] + min(place[axis], more)
            sizes[s.dim] = each + (place[axis] < more)
    return tuple(sizes), tuple(starts)
