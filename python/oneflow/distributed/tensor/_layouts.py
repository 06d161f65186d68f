"""Entering, leaving and changing layouts with PyTorch's gradients.

``to_global`` and ``to_local`` of global tensors give a gradient the dual layout: each rank's loss counts. PyTorch's
programs compute one loss on all ranks, so a replicated tensor's gradient is replicated too; that is what these
functions do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneflow import Tensor, _oneflow, sbp
from oneflow.autograd.function import Function
from oneflow.distributed.device_mesh import DeviceMesh, mesh_of, mesh_or_new
from oneflow.distributed.tensor.placement_types import Placement, from_sbp, is_partial, to_sbp

__all__ = [
    "assemble",
    "device_mesh",
    "enter",
    "full_tensor",
    "has_mesh",
    "local_part",
    "placements",
    "redistribute",
    "to_local",
]


def has_mesh(x: Tensor) -> bool:
    """Whether a global tensor is seen by PyTorch's names: this thread has made a mesh over its ranks."""
    return mesh_of(x.placement) is not None


def device_mesh(x: Tensor) -> DeviceMesh:
    """The mesh over the ranks of a global tensor."""
    return mesh_or_new(x.placement)


def placements(x: Tensor) -> tuple[Placement, ...]:
    """The SBP of a global tensor in PyTorch's words."""
    return from_sbp(x.sbp)


def assemble(local: Tensor, placement: Any, layout: Sequence[Any], sizes: Sequence[int]) -> Tensor:
    """The global tensor of known sizes with this shard; nothing is sent, and no gradient is recorded."""
    return _oneflow._C._assemble(local.detach().contiguous(), placement, list(layout), list(sizes))


def local_part(x: Tensor) -> Tensor:
    """This rank's shard without gradient; it shares memory."""
    return _oneflow._C._shard(x.detach(), x.placement, list(x.sbp), False)


def enter(local: Tensor, placement: Any, layout: Sequence[Any], sizes: Sequence[int]) -> Tensor:
    """The global tensor of known sizes with this shard."""
    return _Enter.apply(local, placement, list(layout), list(sizes))


def to_local(x: Tensor, grad_placements: Sequence[Placement] | None = None) -> Tensor:
    """This rank's shard, whose gradient has the layout of ``x``, replicated where that is partial, or the one given."""
    layout = _of_gradient(x.sbp)
    if grad_placements is not None:
        layout = to_sbp(grad_placements, len(x.sbp), x.dim(), "to_local")
    return _Leave.apply(x, layout)


def redistribute(
    x: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    async_op: bool = False,
    forward_dtype: Any = None,
    backward_dtype: Any = None,
) -> Tensor:
    """The same tensor in other placements, or on another mesh.

    Args:
        device_mesh: the tensor's own if left out.
        placements: one for each dimension of the mesh.
        async_op: accepted; the result is complete when the call returns.
        forward_dtype, backward_dtype: of the elements that are sent.

    Raises:
        RuntimeError: no placements, or a partial one where the tensor is not: PyTorch reserves that for itself.
    """
    if placements is None:
        raise RuntimeError("placements is needed for redistribute!")
    placement = x.placement if device_mesh is None else device_mesh.placement
    layout = to_sbp(placements, len(placement.hierarchy), x.dim(), "redistribute")
    if placement == x.placement:
        made_partial = any(is_partial(to) and to != now for to, now in zip(layout, x.sbp, strict=True))
    else:
        made_partial = any(is_partial(s) for s in layout)
    if made_partial:
        raise RuntimeError("Can not redistribute to Partial, redistributing to Partial is for internal use only!")
    dtype = x.dtype
    if forward_dtype is not None or backward_dtype is not None:
        x = _Cast.apply(x, forward_dtype or dtype, dtype)
    moved = x.to_global(placement, layout, grad_sbp=_of_gradient(x.sbp))
    if backward_dtype is not None or forward_dtype is not None:
        moved = _Cast.apply(moved, dtype, backward_dtype or dtype)
    return moved


def full_tensor(x: Tensor, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
    """The whole as a local tensor on every rank of the mesh."""
    whole = x.to_global(sbp=[sbp.broadcast] * len(x.sbp), grad_sbp=_of_gradient(x.sbp))
    return to_local(whole, grad_placements)


def _of_gradient(layout: Sequence[Any]) -> list[Any]:
    """The layout of a gradient in PyTorch: that of the value, and replicated where the value is partial."""
    return [sbp.broadcast if is_partial(s) else s for s in layout]


class _Enter(Function):
    @staticmethod
    def forward(ctx: Any, local: Tensor, placement: Any, layout: list[Any], sizes: list[int]) -> Tensor:
        ctx.layout = _of_gradient(layout)
        return assemble(local, placement, layout, sizes)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        grad = grad.to_global(sbp=ctx.layout) if list(grad.sbp) != ctx.layout else grad
        return to_local(grad), None, None, None


class _Leave(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, layout: list[Any]) -> Tensor:
        ctx.placement, ctx.layout, ctx.sizes = x.placement, layout, list(x.shape)
        return local_part(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Enter.apply(grad.contiguous(), ctx.placement, ctx.layout, ctx.sizes), None


class _Cast(Function):
    """One dtype on the way, and another for the gradient on its way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: Any, of_gradient: Any) -> Tensor:
        ctx.dtypes = (of_gradient, dtype)
        return x.to(dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Cast.apply(grad, *ctx.dtypes), None, None
