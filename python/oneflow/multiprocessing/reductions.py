"""How tensors cross to another process: their storage as a descriptor of shared memory, their layout as numbers."""

from __future__ import annotations

from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.shared_memory import open_segment, segment_of, storage_in
from oneflow.nn.parameter import Parameter

__all__ = ["init_reductions", "reduce_tensor"]


def _rebuild(kind: Any, handle: Any, n_bytes: int, dtype: Any, layout: Any, requires_grad: bool) -> Tensor:
    storage = storage_in(open_segment(handle.detach(), n_bytes), n_bytes)
    offset, shape, stride = layout
    tensor = oneflow.empty((0,), dtype=dtype).set_(storage, offset, shape, stride)
    return Parameter(tensor, requires_grad) if kind is Parameter else tensor.requires_grad_(requires_grad)


def reduce_tensor(tensor: Tensor) -> Any:
    """Return what ``multiprocessing`` sends instead of a tensor.

    Example::

        >>> rebuild, parts = oneflow.multiprocessing.reductions.reduce_tensor(oneflow.ones(2))
        >>> callable(rebuild)
        True
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    strided = tensor.layout is oneflow.strided
    if tensor.device.type != "cpu" or not strided or not tensor.is_local or tensor.numel() == 0:
        return tensor.__reduce_ex__(2)
    storage = tensor.untyped_storage()
    segment = segment_of(storage)
    layout = (tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()))
    kind = Parameter if isinstance(tensor, Parameter) else Tensor
    return _rebuild, (kind, DupFd(segment.fd), segment.n_bytes, tensor.dtype, layout, tensor.requires_grad)


def init_reductions() -> None:
    """Teach ``multiprocessing`` to send tensors.

    Example::

        >>> oneflow.multiprocessing.reductions.init_reductions()  # Importing oneflow.multiprocessing does it.
    """
    ForkingPickler.register(Tensor, reduce_tensor)
    ForkingPickler.register(Parameter, reduce_tensor)
