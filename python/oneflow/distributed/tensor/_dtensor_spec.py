"""What a DTensor is, without its data: ``DTensorSpec``, which packages read as ``x._spec``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import oneflow
from oneflow import Tensor
from oneflow.distributed.device_mesh import DeviceMesh
from oneflow.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["DTensorSpec", "TensorMeta", "spec_of"]


class TensorMeta(NamedTuple):
    """Sizes, strides and dtype of a whole tensor."""

    shape: Any
    stride: tuple[int, ...]
    dtype: Any


@dataclasses.dataclass(frozen=True)
class DTensorSpec:
    """A mesh, one placement for each of its dimensions, and what the whole tensor is like.

    Example::

        >>> x = oneflow.ones(2, 3).to_global(oneflow.placement("cpu", [0]), oneflow.sbp.split(0))
        >>> x._spec.placements, x._spec.tensor_meta.shape, x._spec.ndim
        ((Shard(dim=0),), oneflow.Size([2, 3]), 2)
    """

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    tensor_meta: TensorMeta | None = None

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self.mesh

    def _meta(self) -> TensorMeta:
        if self.tensor_meta is None:
            raise ValueError("tensor_meta is not set")
        return self.tensor_meta

    @property
    def shape(self) -> Any:
        """Sizes of the whole."""
        return self._meta().shape

    @property
    def stride(self) -> tuple[int, ...]:
        """Strides of the whole."""
        return self._meta().stride

    @property
    def ndim(self) -> int:
        """How many dimensions the tensor has."""
        return len(self.shape)

    @property
    def num_shards(self) -> int:
        """Into how many slices it is cut."""
        n = 1
        for axis, placement in enumerate(self.placements):
            n *= self.mesh.size(axis) if placement.is_shard() else 1
        return n

    @property
    def dim_map(self) -> list[int]:
        """For each dimension of the tensor that of the mesh over which it is cut; -1 for none."""
        found = [-1] * self.ndim
        for axis, placement in enumerate(self.placements):
            if isinstance(placement, Shard):
                found[placement.dim] = axis
        return found

    @property
    def sums(self) -> list[int]:
        """The dimensions of the mesh whose ranks hold terms of sums."""
        return [axis for axis, placement in enumerate(self.placements) if placement.is_partial()]

    def is_replicated(self) -> bool:
        """Whether each rank holds all of it."""
        return all(placement.is_replicate() for placement in self.placements)

    def is_sharded(self) -> bool:
        """Whether a dimension of the mesh cuts it."""
        return any(placement.is_shard() for placement in self.placements)

    @classmethod
    def from_dim_map(
        cls, mesh: DeviceMesh, dim_map: Sequence[int], sums: Sequence[int], tensor_meta: TensorMeta | None = None
    ) -> DTensorSpec:
        """Return the one with these :attr:`dim_map` and :attr:`sums`.

        Example::

            >>> from oneflow.distributed.tensor._dtensor_spec import DTensorSpec
            >>> DTensorSpec.from_dim_map(oneflow.distributed.init_device_mesh("cpu", (1,)), [-1, 0], []).placements
            (Shard(dim=1),)
        """
        layout: list[Placement] = [Replicate()] * mesh.ndim
        for axis in sums:
            layout[axis] = Partial()
        for dim, axis in enumerate(dim_map):
            if axis >= 0:
                if not layout[axis].is_replicate():
                    raise RuntimeError(f"DTensorSpec: dimension {axis} of the mesh has {layout[axis]} already")
                layout[axis] = Shard(dim)
        return cls(mesh, tuple(layout), tensor_meta)


def spec_of(x: Tensor) -> DTensorSpec:
    """Of a global tensor."""
    meta = TensorMeta(oneflow.Size(x.shape), tuple(x.stride()), x.dtype)
    return DTensorSpec(x.device_mesh, tuple(x.placements), meta)
