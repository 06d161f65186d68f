"""What PyTorch's DTensor has, as attributes and methods of global tensors: :mod:`oneflow.distributed.tensor`.

Local tensors do not have them. The layers above are asked when a method is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow._oneflow import Tensor

__all__ = ["METHODS"]

_to_local = Tensor.to_local


def _layouts() -> Any:
    return oneflow.distributed.tensor._layouts


def _global(self: Tensor, name: str) -> None:
    if not self.is_global:
        raise AttributeError(f"'Tensor' object has no attribute '{name}': the tensor is local")


def to_local(
    self: Tensor, *, copy: bool = False, grad_placements: Sequence[Any] | None = None, async_op: bool = False
) -> Tensor:
    """This rank's shard of a global tensor.

    Over a :class:`~oneflow.distributed.DeviceMesh` gradients are PyTorch's: that of a shard is the shard of the
    gradient, and a replicated tensor's is replicated, as when all ranks compute one loss. Otherwise they are
    OneFlow's: the loss is the sum of all ranks'.

    Args:
        copy: into memory of its own.
        grad_placements: the layout that the gradient has.
        async_op: accepted; the result is complete.

    Example::

        >>> x = oneflow.ones(2).to_global(oneflow.placement("cpu", [0]), oneflow.sbp.broadcast)
        >>> x.to_local()
        tensor([1., 1.])
    """
    if grad_placements is None and not (self.is_global and _layouts().has_mesh(self)):
        return _to_local(self, copy=copy)
    _global(self, "to_local")
    local = _layouts().to_local(self, grad_placements)
    return local.clone() if copy else local


def full_tensor(self: Tensor, *, grad_placements: Sequence[Any] | None = None) -> Tensor:
    """The whole of a global tensor as a local one, on every rank of its mesh: PyTorch's ``DTensor.full_tensor``.

    Example::

        >>> x = oneflow.ones(2).to_global(oneflow.placement("cpu", [0]), oneflow.sbp.split(0))
        >>> x.full_tensor()
        tensor([1., 1.])
    """
    _global(self, "full_tensor")
    return _layouts().full_tensor(self, grad_placements=grad_placements)


def redistribute(
    self: Tensor,
    device_mesh: Any = None,
    placements: Sequence[Any] | None = None,
    *,
    async_op: bool = False,
    forward_dtype: Any = None,
    backward_dtype: Any = None,
) -> Tensor:
    """The same global tensor in other placements: PyTorch's ``DTensor.redistribute``.

    Args:
        device_mesh: the tensor's own if left out.
        placements: one for each dimension of the mesh.
        async_op: accepted; the result is complete.
        forward_dtype: of the result, and of what is sent for it.
        backward_dtype: of what is sent for the gradient, which has the tensor's own dtype.

    Raises:
        RuntimeError: no placements, or ``Partial`` on another mesh.

    Example::

        >>> from oneflow.distributed.tensor import Replicate
        >>> x = oneflow.ones(2).to_global(oneflow.placement("cpu", [0]), oneflow.sbp.split(0))
        >>> x.redistribute(placements=[Replicate()]).placements
        (Replicate(),)
    """
    _global(self, "redistribute")
    return _layouts().redistribute(
        self,
        device_mesh,
        placements,
        async_op=async_op,
        forward_dtype=forward_dtype,
        backward_dtype=backward_dtype,
    )


def _device_mesh(self: Tensor) -> Any:
    """The mesh of ranks of a global tensor: PyTorch's ``DTensor.device_mesh``.

    Example::

        >>> x = oneflow.ones(2).to_global(oneflow.placement("cpu", [0]), oneflow.sbp.split(0))
        >>> x.device_mesh.size()
        1
    """
    _global(self, "device_mesh")
    return _layouts().device_mesh(self)


def _placements(self: Tensor) -> tuple[Any, ...]:
    """The layout of a global tensor in PyTorch's words: ``DTensor.placements``.

    Example::

        >>> x = oneflow.ones(2).to_global(oneflow.placement("cpu", [0]), oneflow.sbp.split(0))
        >>> x.placements
        (Shard(dim=0),)
    """
    _global(self, "placements")
    return _layouts().placements(self)


def _local_tensor(self: Tensor) -> Tensor:
    """This rank's shard without gradient; it shares memory."""
    _global(self, "_local_tensor")
    return _layouts().local_part(self)


def _spec(self: Tensor) -> Any:
    """Mesh, placements, sizes and dtype of a global tensor: PyTorch's ``DTensor._spec``."""
    _global(self, "_spec")
    tensors: Any = oneflow.distributed.tensor
    return tensors._dtensor_spec.spec_of(self)


def _utils() -> Any:
    return oneflow.distributed.tensor._utils


def _create_chunk_list(self: Tensor) -> Any:
    """The box of this rank's part of a global tensor: PyTorch's ``DTensor.__create_chunk_list__``."""
    _global(self, "__create_chunk_list__")
    return _utils().create_chunk_list(self)


def _create_write_items(self: Tensor, fqn: str, object: Any) -> Any:
    """What this rank writes of a global tensor into a checkpoint: PyTorch's ``DTensor.__create_write_items__``."""
    _global(self, "__create_write_items__")
    return _utils().create_write_items(self, fqn, object)


def _get_tensor_shard(self: Tensor, index: Any) -> Tensor:
    """This rank's part of a global tensor: PyTorch's ``DTensor.__get_tensor_shard__``."""
    _global(self, "__get_tensor_shard__")
    found: Tensor = _utils().get_tensor_shard(self, index)
    return found


METHODS: dict[str, Any] = {
    "to_local": to_local,
    "full_tensor": full_tensor,
    "redistribute": redistribute,
    "device_mesh": property(_device_mesh),
    "placements": property(_placements),
    "_local_tensor": property(_local_tensor),
    "_spec": property(_spec),
    "__create_chunk_list__": _create_chunk_list,
    "__create_write_items__": _create_write_items,
    "__get_tensor_shard__": _get_tensor_shard,
}
