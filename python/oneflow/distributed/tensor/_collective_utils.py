"""PyTorch's module of this name: collectives along a dimension of a mesh, and padding."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, distributed
from oneflow.distributed._functional_collectives import all_gather_tensor, all_to_all_single
from oneflow.distributed.device_mesh import DeviceMesh
from oneflow.distributed.tensor.placement_types import pad_tensor

__all__ = ["mesh_broadcast", "mesh_scatter", "pad_tensor", "shard_dim_alltoall", "unpad_tensor"]


def mesh_broadcast(tensor: Tensor, mesh: DeviceMesh, mesh_dim: int = 0, async_op: bool = False) -> Any:
    """Copy the tensor of the first rank of each line of ranks along a dimension to the others of the line."""
    if tensor.is_meta:
        return None
    group = mesh.get_group(mesh_dim)
    first = distributed.get_global_rank(group, 0)
    return distributed.broadcast(tensor, src=first, group=group, async_op=async_op)


def mesh_scatter(
    output: Tensor, scatter_list: list[Tensor], mesh: DeviceMesh, mesh_dim: int = 0, async_op: bool = False
) -> Any:
    """Give each rank of a line along a dimension its tensor of the first rank's list."""
    if output.is_meta:
        return None
    group = mesh.get_group(mesh_dim)
    first = distributed.get_global_rank(group, 0)
    mine = scatter_list if first == distributed.get_rank() else None
    return distributed.scatter(output, mine, src=first, group=group, async_op=async_op)


def shard_dim_alltoall(input: Tensor, gather_dim: int, shard_dim: int, mesh: DeviceMesh, mesh_dim: int) -> Tensor:
    """Slices along ``shard_dim`` in place of slices along ``gather_dim``, on each line of ranks along a dimension."""
    n, group = mesh.size(mesh_dim), mesh.get_group(mesh_dim)
    if input.is_meta:
        return oneflow.cat([input] * n, gather_dim).chunk(n, dim=shard_dim)[mesh.get_local_rank(mesh_dim)].contiguous()
    if input.size(shard_dim) % n:
        # Slices of different sizes: `chunk` says which.
        whole = all_gather_tensor(input, gather_dim, group)
        return whole.chunk(n, dim=shard_dim)[mesh.get_local_rank(mesh_dim)].contiguous()
    pieces = all_to_all_single(input.movedim(shard_dim, 0).contiguous(), None, None, group)
    return oneflow.cat([piece.movedim(0, shard_dim) for piece in pieces.chunk(n)], gather_dim)


def unpad_tensor(tensor: Tensor, pad_dim: int, pad_size: int) -> Tensor:
    """``tensor`` without the last ``pad_size`` elements of a dimension."""
    return tensor if pad_size == 0 else tensor.narrow(pad_dim, 0, tensor.size(pad_dim) - pad_size)
