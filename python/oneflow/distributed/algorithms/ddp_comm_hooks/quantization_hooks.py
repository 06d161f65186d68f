"""Gradients as bytes: each rank sends 8 bits an element, and the range that they span.

All ranks gather what all send, so that more is sent than by an all-reduce once there are more than eight ranks.
"""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, distributed
from oneflow.distributed.algorithms.ddp_comm_hooks.default_hooks import WorkFuture
from oneflow.futures import Future

__all__ = ["quantization_perchannel_hook", "quantization_pertensor_hook"]


def quantization_pertensor_hook(process_group: Any, bucket: Any) -> Future:
    """Average a bucket of which each rank sends bytes, in 256 steps between its smallest and its largest element.

    Example::

        >>> from oneflow.distributed.algorithms.ddp_comm_hooks import quantization_hooks
        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
        >>> model.register_comm_hook(None, quantization_hooks.quantization_pertensor_hook)
    """
    return _averaged(process_group, bucket.buffer(), bucket.buffer().view(1, -1))


def quantization_perchannel_hook(process_group: Any, bucket: Any, bucket_size: int = 512) -> Future:
    """Average a bucket of which each rank sends bytes, with a range for each ``bucket_size`` elements.

    Example::

        >>> from oneflow.distributed.algorithms.ddp_comm_hooks import quantization_hooks
        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
        >>> model.register_comm_hook(None, quantization_hooks.quantization_perchannel_hook)
    """
    if bucket_size < 1:
        raise ValueError(f"quantization_perchannel_hook: bucket_size must be positive, got {bucket_size}")
    buffer = bucket.buffer()
    missing = -len(buffer) % bucket_size
    return _averaged(process_group, buffer, oneflow.nn.functional.pad(buffer, (0, missing)).view(-1, bucket_size))


@oneflow.no_grad()
def _averaged(group: Any, buffer: Tensor, rows: Tensor) -> Future:
    """The average over ranks of the elements of ``buffer``, which are those of ``rows``, each with its own range."""
    n, rows = distributed.get_world_size(group), rows.float()
    # Zero is among the steps, so that it stays zero.
    low, high = rows.amin(1).clamp(max=0), rows.amax(1).clamp(min=0)
    scale = ((high - low) / 255).clamp(min=oneflow.finfo(oneflow.float32).eps)
    zero = (-(low / scale).round()).clamp(0, 255)
    ranges = oneflow.empty(n, 2, len(rows), device=rows.device)
    distributed.all_gather_into_tensor(ranges.view(2 * n, -1), oneflow.stack((scale, zero)), group)
    own = ((rows / scale[:, None]).round() + zero[:, None]).clamp(0, 255).to(oneflow.uint8)
    gathered = oneflow.empty(n, *own.shape, dtype=oneflow.uint8, device=own.device)
    work = distributed.all_gather_into_tensor(gathered.view(-1, own.shape[1]), own, group, async_op=True)

    def mean() -> Tensor:
        total = oneflow.zeros_like(rows)
        for (scale, zero), sent in zip(ranges, gathered, strict=True):
            total += (sent.float() - zero[:, None]) * scale[:, None]
        return (total / n).view(-1)[: len(buffer)].to(buffer.dtype)

    return WorkFuture(work, mean)
