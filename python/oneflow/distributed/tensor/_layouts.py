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
from oneflow.distributed.tensor._sharding_order import placements_of, resolve, resolve_on
from oneflow.distributed.tensor.placement_types import Placement, is_partial, n_averaged, to_sbp

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
    return placements_of(x)


def assemble(local: Tensor, placement: Any, layout: Sequence[Any], sizes: Sequence[int]) -> Tensor:
    """The global tensor of known sizes with this shard; nothing is sent, and no gradient is recorded.

    Shards with permuted strides keep their memory, and the whole has such strides too.
    """
    local, order = local.detach(), _order(local)
    if order is None:
        return _oneflow._C._assemble(local.contiguous(), placement, list(layout), list(sizes))
    back = [order.index(dim) for dim in range(len(order))]
    permuted = [s if s.dim is None else sbp.split(back[s.dim]) for s in layout]
    sizes = [sizes[dim] for dim in order]
    return _oneflow._C._assemble(local.permute(order), placement, permuted, sizes).permute(back)


def _order(local: Tensor) -> list[int] | None:
    """The order of dimensions in which a tensor is contiguous; None if it is as it stands, or in no order."""
    if local.is_contiguous():
        return None
    strides = local.stride()
    order = sorted(range(local.dim()), key=lambda dim: -strides[dim])
    return order if local.permute(order).is_contiguous() else None


def enter_placed(
    local: Tensor,
    mesh: DeviceMesh,
    placements: Sequence[Placement] | None,
    sizes: Sequence[int],
    grad_placements: Sequence[Placement] | None = None,
) -> Tensor:
    """:func:`enter` in PyTorch's words; the gradient is brought to ``grad_placements`` before its part is taken."""
    placement, layout = resolve(mesh, placements, len(sizes), "DTensor.from_local")
    of_gradient = None
    if grad_placements is not None:
        # PyTorch reads as many as the mesh has dimensions.
        of_gradient = resolve_on(placement, grad_placements[: mesh.ndim], len(sizes), "DTensor.from_local")
    return _Enter.apply(local, placement, layout, list(sizes), of_gradient, n_averaged(placements, mesh.shape))


def local_part(x: Tensor) -> Tensor:
    """This rank's shard without gradient; it shares memory."""
    return _oneflow._C._shard(x.detach(), x.placement, list(x.sbp), False)


def enter(local: Tensor, placement: Any, layout: Sequence[Any], sizes: Sequence[int]) -> Tensor:
    """The global tensor of known sizes with this shard."""
    return _Enter.apply(local, placement, list(layout), list(sizes), None, 1)


def to_local(x: Tensor, grad_placements: Sequence[Placement] | None = None) -> Tensor:
    """This rank's shard, whose gradient has the layout of ``x``, replicated where that is partial, or the one given."""
    layout, n = _of_gradient(x.sbp), 1
    if grad_placements is not None:
        layout = resolve_on(x.placement, grad_placements, x.dim(), "to_local")
        n = n_averaged(grad_placements, device_mesh(x).shape)
    return _Leave.apply(x, layout, n)


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
        forward_dtype: of the result, and of what is sent for it.
        backward_dtype: of what is sent for the gradient, which has the dtype of ``x``.

    Terms of a sum that come of a replicated tensor are its n-th parts, and of slices these and zeros.

    Raises:
        RuntimeError: no placements, or partial ones on another mesh.
    """
    if placements is None:
        raise RuntimeError("placements is needed for redistribute!")
    own = mesh_of(x.placement)
    mesh = own if device_mesh is None else device_mesh
    if mesh is None or (device_mesh is None and x.placement.parts != "chunks"):
        placement, layout = x.placement, to_sbp(placements, len(x.sbp), x.dim(), "redistribute")
    else:
        placement, layout = resolve(mesh, placements, x.dim(), "redistribute")
    same_mesh = placement == x.placement
    if not same_mesh and any(is_partial(s) for s in layout):
        if mesh is not own:
            raise RuntimeError(
                f"redistribute: to other ranks no terms are sent, got {tuple(placements)} on {device_mesh}"
            )
        # Dimensions of one mesh that cut in another order.
        x = x.to_global(placement, [sbp.broadcast] * len(layout), grad_sbp=_of_gradient(x.sbp))
        same_mesh = True
    dtype = x.dtype
    if forward_dtype is not None or backward_dtype is not None:
        x = _Cast.apply(x, forward_dtype or dtype, dtype)
    if same_mesh and any(is_partial(to) and to != now for to, now in zip(layout, x.sbp, strict=True)):
        moved = _Terms.apply(x, layout)
    else:
        moved = x.to_global(placement, layout, grad_sbp=_of_gradient(x.sbp))
    if backward_dtype is not None:
        moved = _Cast.apply(moved, moved.dtype, backward_dtype)
    return moved


def terms(x: Tensor, layout: Sequence[Any]) -> Tensor:
    """``x`` in a layout that is partial where ``x`` need not be; no gradient is recorded."""
    made = [is_partial(to) and to != now for to, now in zip(layout, x.sbp, strict=True)]
    n, before = 1, list(layout)
    for axis, (now, is_made) in enumerate(zip(x.sbp, made, strict=True)):
        if is_made and is_partial(now):
            raise RuntimeError(f"redistribute: terms of {now} do not become terms of {layout[axis]}")
        if is_made and layout[axis] != sbp.partial_sum:
            # The whole is a candidate on each rank.
            before[axis] = sbp.broadcast
        elif is_made and now.dim is None:
            before[axis] = sbp.broadcast
            n *= x.placement.hierarchy[axis]
    moved = x.detach().to_global(sbp=before)
    return assemble(local_part(moved) / n if n > 1 else local_part(moved), x.placement, layout, list(x.shape))


def full_tensor(x: Tensor, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
    """The whole as a local tensor on every rank of the mesh."""
    whole = x.to_global(sbp=[sbp.broadcast] * len(x.sbp), grad_sbp=_of_gradient(x.sbp))
    return to_local(whole, grad_placements)


def _of_gradient(layout: Sequence[Any]) -> list[Any]:
    """The layout of a gradient in PyTorch: that of the value, and replicated where the value is partial."""
    return [sbp.broadcast if is_partial(s) else s for s in layout]


class _Enter(Function):
    @staticmethod
    def forward(
        ctx: Any,
        local: Tensor,
        placement: Any,
        layout: list[Any],
        sizes: list[int],
        of_gradient: list[Any] | None,
        divided_by: int,
    ) -> Tensor:
        ctx.layout = _of_gradient(layout) if of_gradient is None else of_gradient
        return assemble(local / divided_by if divided_by > 1 else local, placement, layout, sizes)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        if list(grad.sbp) != ctx.layout:
            grad = (
                _Terms.apply(grad, ctx.layout) if any(map(is_partial, ctx.layout)) else grad.to_global(sbp=ctx.layout)
            )
        return to_local(grad), None, None, None, None, None


class _Terms(Function):
    """A layout that is partial where the value need not be."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layout: list[Any]) -> Tensor:
        ctx.layout = _of_gradient(x.sbp)
        return terms(x, layout)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad.to_global(sbp=ctx.layout), None


class _Leave(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, layout: list[Any], divided_by: int) -> Tensor:
        ctx.placement, ctx.layout, ctx.sizes, ctx.divided_by = x.placement, layout, list(x.shape), divided_by
        return local_part(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        whole = _Enter.apply(grad.contiguous(), ctx.placement, ctx.layout, ctx.sizes, None, ctx.divided_by)
        return whole, None, None


class _Cast(Function):
    """One dtype on the way, and another for the gradient on its way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: Any, of_gradient: Any) -> Tensor:
        ctx.dtypes = (of_gradient, dtype)
        return x.to(dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Cast.apply(grad, *ctx.dtypes), None, None
