"""Cross entropy of logits whose classes are split over ranks, without gathering them.

Source: Megatron-LM's vocabulary-parallel cross entropy (Shoeybi et al., arXiv:1909.08053), which sends three numbers a
row: the largest logit, the sum of exponentials and the logit of the target.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Iterator
from typing import Any

import oneflow
import oneflow.nn.functional as F
from oneflow import Tensor, distributed
from oneflow.autograd.function import Function
from oneflow.distributed.device_mesh import axes_of
from oneflow.distributed.tensor import _layouts
from oneflow.overrides import TorchFunctionMode

__all__ = ["loss_parallel"]


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """Inside, ``cross_entropy`` of DTensors that are split along the classes computes on the parts.

    The loss is replicated. Targets are class numbers, the same on all ranks: a local tensor, or a replicated DTensor.

    Raises:
        NotImplementedError: probabilities as targets, smoothed labels, or logits that are split along other dimensions
            as well.

    Example::

        >>> from oneflow.distributed.tensor import Shard, distribute_tensor
        >>> from oneflow.distributed.tensor.parallel import loss_parallel
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     logits = distribute_tensor(oneflow.zeros(3, 4, requires_grad=True), mesh, [Shard(1)])
        ...     with loss_parallel():
        ...         return F.cross_entropy(logits, oneflow.tensor([0, 1, 3])).to_local().detach()
        >>> oneflow.testing.run_ranks(2, rank)
        [tensor(1.3863), tensor(1.3863)]
    """
    with _CrossEntropyOfParts():
        yield


_SIGNATURE = inspect.signature(F.cross_entropy)


class _CrossEntropyOfParts(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.cross_entropy or getattr(func, "__name__", "") == "cross_entropy":
            given = _SIGNATURE.bind(*args, **kwargs)
            given.apply_defaults()
            if _class_axis(given.arguments["input"]) is not None:
                return _cross_entropy(**given.arguments)
        return func(*args, **kwargs)


def _class_axis(logits: Tensor) -> int | None:
    """The mesh axis over which the classes are split."""
    if not logits.is_global:
        return None
    dim = 1 if logits.dim() > 1 else 0
    return next((axis for axis, s in enumerate(logits.sbp) if s.dim == dim), None)


def _cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    size_average: Any,
    ignore_index: int,
    reduce: Any,
    reduction: str,
    label_smoothing: float,
) -> Tensor:
    axis = _class_axis(input)
    assert axis is not None
    if any(s != oneflow.sbp.broadcast for i, s in enumerate(input.sbp) if i != axis):
        raise NotImplementedError(
            f"loss_parallel: logits must be split along the classes alone, got {input.placements}"
        )
    if label_smoothing != 0.0 or target.is_floating_point():
        raise NotImplementedError("loss_parallel: targets are class numbers, without label_smoothing")
    if size_average is not None or reduce is not None:
        reduction = F._losses.legacy_reduction(size_average, reduce, reduction)
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    mesh = input.device_mesh
    whole = [
        t.to_global(sbp=[oneflow.sbp.broadcast] * mesh.ndim).to_local() if t is not None and t.is_global else t
        for t in (target, weight)
    ]
    dim = 1 if input.dim() > 1 else 0
    # The dimension of the mesh, which may cut in another order than its dimensions stand.
    line = axes_of(input.placement)[1][axis]
    start, _ = input.placement._part(input.shape[dim], axis, mesh.get_local_rank(line))
    parts = _layouts.to_local(input)
    loss = _Parts.apply(
        parts, whole[0], whole[1], start, input.shape[dim], ignore_index, reduction, mesh.get_group(line)
    )
    return _layouts.enter(loss, input.placement, [oneflow.sbp.broadcast] * mesh.ndim, list(loss.shape))


class _Parts(Function):
    @staticmethod
    def forward(
        ctx: Any,
        parts: Tensor,
        target: Tensor,
        weight: Tensor | None,
        start: int,
        n_classes: int,
        ignore_index: int,
        reduction: str,
        group: Any,
    ) -> Tensor:
        dim = 1 if parts.dim() > 1 else 0
        counts = target != ignore_index
        wrong = counts & ((target < 0) | (target >= n_classes))
        if bool(wrong.any()):
            raise IndexError(f"Target {int(target[wrong].flatten()[0])} is out of bounds.")
        logits = parts.float() if parts.dtype in (oneflow.float16, oneflow.bfloat16) else parts
        n = logits.shape[dim]
        if n == 0:
            # A rank without classes: one that nothing is.
            logits = logits.new_full([1 if d == dim else size for d, size in enumerate(logits.shape)], -math.inf)
        largest = logits.amax(dim, keepdim=True).contiguous()
        distributed.all_reduce(largest, distributed.ReduceOp.MAX, group)
        powers = (logits - largest).exp()
        total = powers.sum(dim, keepdim=True).contiguous()
        distributed.all_reduce(total, group=group)
        at = (target - start).unsqueeze(dim)
        inside = counts.unsqueeze(dim) & (at >= 0) & (at < n)
        at = oneflow.where(inside, at, 0)
        picked = oneflow.where(inside, logits.gather(dim, at), 0).contiguous()
        distributed.all_reduce(picked, group=group)
        factor = counts.to(logits.dtype)
        if weight is not None:
            factor = factor * weight.to(logits.dtype)[oneflow.where(counts, target, 0)]
        loss = (total.log() + largest - picked).squeeze(dim) * factor
        if reduction == "mean":
            factor = factor / factor.sum()
            loss = (total.log() + largest - picked).squeeze(dim) * factor
        ctx.save_for_backward(powers / total, at, inside, factor)
        ctx.dim, ctx.n, ctx.dtype = dim, n, parts.dtype
        # Where nothing counts, the mean is 0 / 0 as in PyTorch.
        return (loss if reduction == "none" else loss.sum()).to(parts.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        softmax, at, inside, factor = ctx.saved_tensors
        scale = (grad * factor).unsqueeze(ctx.dim)
        found = softmax * scale
        found = found.scatter_add(ctx.dim, at, -(scale * inside))
        return (found.narrow(ctx.dim, 0, ctx.n).to(ctx.dtype), *([None] * 7))
