"""Where slices live between uses: on the devices of a mesh, in memory of the host, or in files."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._trace.offload import LEAST
from oneflow.distributed.device_mesh import DeviceMesh
from oneflow.distributed.fsdp._policies import CPUOffloadPolicy, DiskOffloadPolicy, OffloadPolicy

__all__ = ["Home"]


class Home:
    """What an offload policy means for the slices of a mesh.

    Attributes:
        on_host: the mesh is of GPUs, and slices are tensors of the host.
        folder: that of the files, None for memory.
    """

    def __init__(self, mesh: DeviceMesh, policy: OffloadPolicy | None) -> None:
        if policy is not None and not isinstance(policy, OffloadPolicy):
            raise TypeError(f"fully_shard: expected an OffloadPolicy, got {type(policy).__name__}")
        self.on_host = isinstance(policy, CPUOffloadPolicy) and mesh.device_type != "cpu"
        self.pins = isinstance(policy, CPUOffloadPolicy) and policy.pin_memory
        self.folder: str | None = None
        if isinstance(policy, DiskOffloadPolicy):
            if mesh.device_type != "cpu":
                raise NotImplementedError(
                    f"fully_shard: DiskOffloadPolicy with a mesh of type {mesh.device_type!r}: memory of a GPU has no "
                    "pages of a file; CPUOffloadPolicy moves slices to the host"
                )
            self.folder = tempfile.gettempdir() if policy.folder is None else os.fspath(policy.folder)
            if not os.path.isdir(self.folder):
                raise ValueError(f"fully_shard: there is no folder {self.folder!r}")

    def placement(self, mesh_placement: Any) -> Any:
        """The placement of slices, given that of the mesh."""
        if not self.on_host:
            return mesh_placement
        return oneflow.placement("cpu", mesh_placement.ranks.tolist(), parts=mesh_placement.parts)

    def memory_for(self, own: Tensor) -> Tensor:
        """A local slice where it is to live, files aside."""
        if not self.on_host:
            return own
        own = own.cpu()
        return own.pin_memory() if self.pins else own

    def settle(self, sharded: Tensor) -> None:
        """Move a slice to its file; states that optimizers make for it follow."""
        own = sharded.to_local()
        if self.folder is not None and own.numel() * own.element_size() >= LEAST:
            del own
            _oneflow._move_to_file(sharded, self.folder, 0)
            sharded._offload_folder = self.folder  # type: ignore[attr-defined]
