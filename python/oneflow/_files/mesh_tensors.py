"""DTensors in files: this rank's part as a tensor, and what it is a part of as plain values.

Global tensors whose ranks no ``DeviceMesh`` names are written whole instead; that is not decided for them here.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow

__all__ = ["described", "is_on_mesh", "rebuilt"]


def is_on_mesh(tensor: Tensor) -> bool:
    """Whether a tensor is global over the ranks of a mesh of this thread."""
    if not tensor.is_global or "oneflow.distributed.device_mesh" not in sys.modules:
        return False
    meshes: Any = oneflow.distributed.device_mesh
    return tensor.placement.parts == "chunks" and meshes.mesh_of(tensor.placement) is not None


def described(tensor: Tensor) -> tuple[Any, ...]:
    """What :func:`rebuilt` takes."""
    x: Any = tensor
    mesh = x.device_mesh
    words = tuple(_word(placement) for placement in x.placements)
    local = _oneflow._C._shard(tensor.detach(), tensor.placement, list(tensor.sbp), False)
    ranks = mesh.placement.ranks.tolist()
    return local, ranks, mesh.mesh_dim_names, words, tuple(tensor.shape), tensor.requires_grad


def rebuilt(local: Any, ranks: Any, names: Any, words: Any, shape: Any, requires_grad: Any) -> Tensor:
    """The DTensor of a part.

    Raises:
        pickle.UnpicklingError: the values describe no DTensor.
        RuntimeError: this job does not have the ranks of the mesh.
    """
    tensors: Any = oneflow.distributed.tensor
    meshes: Any = oneflow.distributed.device_mesh
    try:
        flat = [int(rank) for rank in _flat(ranks)]
        placements = [_placement(tensors.placement_types, *word) for word in words]
        names = None if names is None else tuple(str(name) for name in names)
        shape = tuple(int(size) for size in shape)
        if not isinstance(local, Tensor) or local.is_global or min(flat) < 0:
            raise TypeError("the part is no local tensor, or a rank is negative")
    except (TypeError, ValueError, NotImplementedError) as error:
        raise pickle.UnpicklingError(f"a DTensor in the file has a broken description: {error}") from None
    n = oneflow.distributed.get_world_size() if oneflow.distributed.is_initialized() else oneflow.env.get_world_size()
    if max(flat) >= n:
        raise RuntimeError(
            f"load: the file has the part of a DTensor of shape {list(shape)} over ranks {flat}, and this job has {n}; "
            "start as many ranks, or save what `full_tensor()` gives, or a folder by oneflow.distributed.checkpoint"
        )
    try:
        made = tensors.DeviceMesh(local.device.type, ranks, mesh_dim_names=names, _init_backend=False)
        mesh = meshes.mesh_of(made.placement)
        stride = [1] * len(shape)
        whole = tensors.DTensor.from_local(local.detach(), mesh, placements, shape=shape, stride=stride)
    except (IndexError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        raise pickle.UnpicklingError(f"a DTensor in the file has a broken description: {error}") from None
    return whole.detach().requires_grad_(bool(requires_grad))


def _flat(ranks: Any) -> list[Any]:
    return [rank for item in ranks for rank in _flat(item)] if isinstance(ranks, (list, tuple)) else [ranks]


def _word(placement: Any) -> tuple[Any, ...]:
    name = type(placement).__name__
    return (name, *(getattr(placement, field) for field in _FIELDS[name]))


def _placement(kinds: Any, name: Any, *values: Any) -> Any:
    fields = dict(zip(_FIELDS[str(name)], values, strict=True)) if str(name) in _FIELDS else None
    if fields is None:
        raise ValueError(f"there is no placement {name!r}")
    if "dim" in fields:
        fields = {field: int(value) for field, value in fields.items()}
    return getattr(kinds, name)(**fields)


_FIELDS = {"Replicate": (), "Shard": ("dim",), "_StridedShard": ("dim", "split_factor"), "Partial": ("reduce_op",)}
