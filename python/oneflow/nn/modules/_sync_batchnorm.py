"""Batch norm whose statistics are those of the batches of all ranks together."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.autograd.function import Function, once_differentiable


def sync_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running: tuple[Tensor, Tensor] | None,
    eps: float,
    momentum: float,
    group: Any,
) -> Tensor:
    """Normalise by the mean and variance over all ranks; batches may differ in size and may be empty.

    One collective in the forward and one in the backward. Gradients of ``weight`` and ``bias`` are this rank's part:
    their sum over ranks is that of the joined batch.

    Args:
        input: (N, C, ...), of any floating dtype; statistics are computed in float32 at least.
        running: mean and variance to be updated in place.
        group: the ranks.

    Raises:
        ValueError: all ranks together have no more than one value per channel.
    """
    return _SyncBatchNorm.apply(input, weight, bias, running, eps, momentum, group)


class _SyncBatchNorm(Function):
    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        running: tuple[Tensor, Tensor] | None,
        eps: float,
        momentum: float,
        group: Any,
    ) -> Tensor:
        n_channels, over = input.shape[1], [d for d in range(input.dim()) if d != 1]
        x = input if input.dtype == oneflow.float64 else input.float()
        count = x.numel() // max(n_channels, 1)
        by_channel = [1, n_channels] + [1] * (input.dim() - 2)
        if count:
            mean = x.mean(over)
            squares = (x - mean.view(by_channel)).square().sum(over)
        else:
            mean, squares = x.new_zeros(n_channels), x.new_zeros(n_channels)
        mine = oneflow.cat([mean, squares, x.new_full((1,), count)])
        all_ = mine.new_empty(oneflow.distributed.get_world_size(group), mine.numel())
        oneflow.distributed.all_gather_into_tensor(all_, mine, group)
        means, all_squares, counts = all_[:, :n_channels], all_[:, n_channels:-1], all_[:, -1:]
        total = float(counts.sum())
        if total <= 1:
            raise ValueError(
                f"SyncBatchNorm: expected more than 1 value per channel over all ranks when training, got input size "
                f"{list(input.shape)} on rank {oneflow.distributed.get_rank()}"
            )
        mean = (means * counts).sum(0) / total
        # The squares around each rank's mean, moved to the mean of all.
        variance = (all_squares + counts * (means - mean).square()).sum(0) / total
        if running is not None:
            running[0].mul_(1 - momentum).add_(mean.to(running[0].dtype), alpha=momentum)
            unbiased = variance * (total / (total - 1))
            running[1].mul_(1 - momentum).add_(unbiased.to(running[1].dtype), alpha=momentum)
        scale = (variance + eps).rsqrt()
        ctx.save_for_backward(input, weight, mean, scale)
        ctx.total, ctx.group, ctx.over, ctx.by_channel, ctx.has_bias = total, group, over, by_channel, bias is not None
        y = (x - mean.view(by_channel)) * scale.view(by_channel)
        if weight is not None:
            y = y * weight.view(by_channel)
        if bias is not None:
            y = y + bias.view(by_channel)
        return y.to(input.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        input, weight, mean, scale = ctx.saved_tensors
        by_channel = ctx.by_channel
        x, grad = input.to(mean.dtype), grad_output.to(mean.dtype)
        normal = (x - mean.view(by_channel)) * scale.view(by_channel)
        sums = oneflow.stack([grad.sum(ctx.over), (grad * normal).sum(ctx.over)])
        grad_bias, grad_weight = sums.clone()
        # Also where this rank's input needs no gradient: the others wait for its part.
        oneflow.distributed.all_reduce(sums, group=ctx.group)
        grad_input = None
        if ctx.needs_input_grad[0]:
            of_grad, of_product = (sums / ctx.total).unbind(0)
            centred = grad - of_grad.view(by_channel) - normal * of_product.view(by_channel)
            factor = scale if weight is None else scale * weight
            grad_input = (centred * factor.view(by_channel)).to(input.dtype)
        parts = [
            None if weight is None else grad_weight.to(weight.dtype),
            grad_bias if ctx.has_bias else None,
        ]
        return (grad_input, *parts, None, None, None, None)
