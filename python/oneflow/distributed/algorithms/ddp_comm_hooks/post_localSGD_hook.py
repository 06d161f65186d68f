"""Gradients averaged over all ranks at first, and over neighbours later: the first half of post-local SGD.

Source: Lin, Stich, Patel and Jaggi, Don't Use Large Mini-Batches, Use Local SGD (arXiv:1808.07217).
"""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import distributed
from oneflow.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from oneflow.futures import Future

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """What :func:`post_localSGD_hook` counts.

    Args:
        process_group: the ranks of the first steps.
        subgroup: those of later steps; by default the ranks of this machine.
        start_localSGD_iter: the number of first steps.
        post_local_gradient_allreduce: whether later steps average over ``subgroup``, or not at all.

    Example::

        >>> from oneflow.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState
        >>> PostLocalSGDState(None, None, 100).iter
        0
    """

    def __init__(
        self,
        process_group: Any,
        subgroup: Any,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group = process_group
        if subgroup is None and post_local_gradient_allreduce:
            size = max(oneflow._oneflow._launch()[3], 1)
            subgroup, _ = distributed.new_subgroups(size if distributed.get_world_size() % size == 0 else 1)
        self.subgroup = subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0


def post_localSGD_hook(state: PostLocalSGDState, bucket: Any) -> Future:
    """Average a bucket over the ranks whose turn it is.

    Example::

        >>> from oneflow.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
        ...     PostLocalSGDState,
        ...     post_localSGD_hook,
        ... )
        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
        >>> model.register_comm_hook(PostLocalSGDState(None, None, 100), post_localSGD_hook)
    """
    is_first = state.iter < state.start_localSGD_iter
    if bucket.is_last():
        state.iter += 1
    if is_first:
        return allreduce_hook(state.process_group, bucket)
    if state.post_local_gradient_allreduce:
        return allreduce_hook(state.subgroup, bucket)
    done: Future = Future()
    done.set_result(bucket.buffer())
    return done
