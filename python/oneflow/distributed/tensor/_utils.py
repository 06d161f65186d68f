"""Where a rank's part of a tensor lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import oneflow
from oneflow import Tensor, distributed
from oneflow.distributed.device_mesh import DeviceMesh
from oneflow.distributed.tensor._sharding_order import resolve
from oneflow.distributed.tensor.placement_types import Placement, Shard

if TYPE_CHECKING:
    from oneflow.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex
    from oneflow.distributed.checkpoint.planner import WriteItem

__all__ = [
    "compute_global_tensor_info",
    "compute_global_tensor_shape",
    "compute_local_shape_and_global_offset",
    "create_chunk_list",
    "create_write_items",
    "get_tensor_shard",
    "normalize_to_torch_size",
]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement], skip_offset: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of this rank's part and where it begins; empty on a rank outside the mesh.

    A part without elements begins at the end of the dimension. With ``skip_offset`` the beginnings are an empty tuple.
    """
    if mesh.get_coordinate() is None:
        return (0,), ()
    sizes, starts = list(global_shape), [0] * len(global_shape)
    placement, layout = resolve(mesh, placements, len(sizes), "compute_local_shape_and_global_offset")
    place = [int(at[0]) for at in (placement.ranks == mesh.get_rank()).nonzero()]
    for axis, s in enumerate(layout):
        if s.dim is not None:
            start, sizes[s.dim] = placement._part(sizes[s.dim], axis, place[axis])
            starts[s.dim] += start
    if skip_offset:
        return tuple(sizes), ()
    ends = zip(starts, sizes, global_shape, strict=True)
    return tuple(sizes), tuple(start if size else end for start, size, end in ends)


def compute_global_tensor_info(
    tensor: Tensor, mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[list[int], list[int]]:
    """Return shape and strides of the whole of which ``tensor`` is a part, if all parts are of its size.

    Example::

        >>> from oneflow.distributed.tensor import Shard
        >>> from oneflow.distributed.tensor._utils import compute_global_tensor_info
        >>> mesh = oneflow.distributed.init_device_mesh("cpu", (1,))
        >>> compute_global_tensor_info(oneflow.ones(2, 3), mesh, [Shard(0)])
        ([2, 3], [3, 1])
    """
    shape, stride = list(tensor.shape), list(tensor.stride())
    placement, layout = resolve(mesh, placements, tensor.dim(), "compute_global_tensor_info")
    for n, s in zip(placement.hierarchy, layout, strict=True):
        if s.dim is None:
            continue
        cut = stride[s.dim]
        shape[s.dim] *= n
        stride = [other * n if dim != s.dim and other >= cut else other for dim, other in enumerate(stride)]
    return shape, stride


def compute_global_tensor_shape(shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]) -> Any:
    """Return the shape of the whole whose parts have the shapes that the ranks of ``mesh`` give: a collective.

    Raises:
        NotImplementedError: a mesh of several dimensions, or a placement that is neither ``Shard`` nor ``Replicate``.
        RuntimeError: shapes of parts that form no whole.
    """
    if len(placements) != 1:
        raise NotImplementedError(
            "compute_global_tensor_shape: one placement, of a mesh of one dimension, is supported"
        )
    (placement,) = placements
    if placement.is_replicate():
        return oneflow.Size(shape)
    if not isinstance(placement, Shard):
        raise NotImplementedError(f"compute_global_tensor_shape: Shard and Replicate are supported, got {placement}")
    every: list[Any] = [None] * mesh.size()
    distributed.all_gather_object(every, list(shape), mesh.get_group(0))
    dim = placement.dim
    for other in every:
        if [*other[:dim], *other[dim + 1 :]] != [*shape[:dim], *shape[dim + 1 :]]:
            raise RuntimeError(
                f"compute_global_tensor_shape: sizes besides that of dimension {dim} differ between ranks, got {every}"
            )
    return oneflow.Size([*shape[:dim], sum(other[dim] for other in every), *shape[dim + 1 :]])


def normalize_to_torch_size(size: Any) -> Any:
    """Return a size that is given as numbers, or as one sequence of them, as ``oneflow.Size``."""
    if len(size) == 1 and isinstance(size[0], (list, tuple)):
        size = size[0]
    return oneflow.Size(size)


def create_chunk_list(x: Tensor) -> list[ChunkStorageMetadata]:
    """The box of this rank's part, for a checkpoint's planner; none on a rank outside."""
    from oneflow.distributed.checkpoint._parts import box_of
    from oneflow.distributed.checkpoint.metadata import ChunkStorageMetadata

    box = box_of(x)
    return [] if box is None else [ChunkStorageMetadata(oneflow.Size(box[0]), oneflow.Size(box[1]))]


def create_write_items(x: Tensor, fqn: str, object: Any) -> list[WriteItem]:
    """What this rank writes of a checkpoint's entry ``fqn``; nothing on a rank outside."""
    from oneflow.distributed.checkpoint.metadata import MetadataIndex, TensorProperties
    from oneflow.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

    return [
        WriteItem(
            MetadataIndex(fqn, chunk.offsets),
            WriteItemType.SHARD,
            tensor_data=TensorWriteData(chunk, TensorProperties(x.dtype), oneflow.Size(x.shape)),
        )
        for chunk in create_chunk_list(x)
    ]


def get_tensor_shard(x: Tensor, index: MetadataIndex) -> Tensor:
    """This rank's part, which must begin where ``index`` says."""
    own = [tuple(chunk.offsets) for chunk in create_chunk_list(x)]
    if index.offset is not None and tuple(index.offset) not in own:
        raise ValueError(f"DTensor: {index.fqn} has no part at {tuple(index.offset)} on this rank, but {own}")
    return x._local_tensor
