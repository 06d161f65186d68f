"""Gradients as products of two thin matrices: PowerSGD.

Source: Vogels, Karimireddy and Jaggi, PowerSGD: Practical Low-Rank Gradient Compression (arXiv:1905.13727).
"""

from __future__ import annotations

import math
from typing import Any

import oneflow
from oneflow import Tensor, distributed
from oneflow.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from oneflow.futures import Future

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """What :func:`powerSGD_hook` keeps from step to step.

    Args:
        process_group: the ranks.
        matrix_approximation_rank: columns of the thin matrices: more are sent, and closer.
        start_powerSGD_iter: steps that are averaged in full before.
        min_compression_rate: a gradient is compressed if that sends so many times less.
        use_error_feedback: add to a gradient what the last compression lost of it.
        warm_start: begin with the factors of the last step.
        orthogonalization_epsilon: added to norms that may be zero.
        random_seed: of the first factors.
        compression_stats_logging_frequency, batch_tensors_with_same_shape: accepted; they change no result.

    Raises:
        ValueError: ``start_powerSGD_iter`` below 2 with error feedback or a warm start, whose buckets must be final.

    Example::

        >>> from oneflow.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState
        >>> PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=10).iter
        0
    """

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, "
                "because PowerSGD can only be applied after the first two iterations in DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter, self.min_compression_rate = start_powerSGD_iter, min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.generator = oneflow.Generator().manual_seed(random_seed)
        self.iter = 0
        # By the index of a bucket: what was lost, and factors by the place of a gradient.
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[tuple[int, int], Tensor] = {}

    def compresses(self, n: int, m: int) -> bool:
        """Whether a matrix of n rows and m columns is sent as two thin ones."""
        return (n + m) * min(n, m, self.matrix_approximation_rank) * self.min_compression_rate < n * m


@oneflow.no_grad()
def powerSGD_hook(state: PowerSGDState, bucket: Any) -> Future:
    """Average the gradients of a bucket, matrices as products of thin ones.

    Example::

        >>> from oneflow.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
        >>> model.register_comm_hook(PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook)
    """
    group, buffer, index = state.process_group, bucket.buffer(), bucket.index()
    if state.iter < state.start_powerSGD_iter:
        if bucket.is_last():
            state.iter += 1
        return allreduce_hook(group, bucket)
    if state.use_error_feedback:
        error = state.error_dict.get(index)
        if error is not None:
            buffer.add_(error)
        given = buffer.clone()
    whole: list[Tensor] = []
    matrices: list[tuple[Tensor, Tensor]] = []
    for place, grad in enumerate(bucket.gradients()):
        n, m = (grad.shape[0], math.prod(grad.shape[1:])) if grad.dim() > 1 else (1, 1)
        if grad.dim() <= 1 or not state.compresses(n, m):
            whole.append(grad.view(-1))
            continue
        key = (index, place)
        q = state.q_memory_dict.get(key) if state.warm_start else None
        if q is None:
            # The same on every rank: they draw from equal generators.
            rank = min(n, m, state.matrix_approximation_rank)
            q = oneflow.randn(m, rank, generator=state.generator, dtype=grad.dtype).to(grad.device)
            state.q_memory_dict[key] = q
        _orthogonalize(q, state.orthogonalization_epsilon)
        matrices.append((grad.view(n, m), q))
    work = None
    if whole:
        flat = oneflow.cat(whole)
        work = distributed.all_reduce(flat, distributed.ReduceOp.AVG, group, async_op=True)
    if matrices:
        ps = _averaged([matrix @ q for matrix, q in matrices], group)
        for p in ps:
            _orthogonalize(p, state.orthogonalization_epsilon)
        qs = _averaged([matrix.t() @ p for (matrix, _), p in zip(matrices, ps, strict=True)], group)
        for (matrix, q), p, new in zip(matrices, ps, qs, strict=True):
            q.copy_(new)
            matrix.copy_(p @ new.t())
    if work is not None:
        work.wait()
        for part, mean in zip(whole, flat.split([w.numel() for w in whole]), strict=True):
            part.copy_(mean)
            if state.use_error_feedback:
                # Nothing is lost of what is sent whole.
                at = part.storage_offset() - buffer.storage_offset()
                given[at : at + part.numel()] = part
    if state.use_error_feedback:
        state.error_dict[index] = given - buffer
    if bucket.is_last():
        state.iter += 1
    done: Future = Future()
    done.set_result(buffer)
    return done


@oneflow.no_grad()
def batched_powerSGD_hook(state: PowerSGDState, bucket: Any) -> Future:
    """Average a bucket as the product of two thin matrices: faster than :func:`powerSGD_hook`, and less close.

    All gradients of the bucket, one after the other, are the elements of one square matrix. ``min_compression_rate`` is
    not asked.

    Example::

        >>> from oneflow.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, batched_powerSGD_hook
        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
        >>> model.register_comm_hook(PowerSGDState(None, start_powerSGD_iter=2), batched_powerSGD_hook)
    """
    group, buffer, key = state.process_group, bucket.buffer(), (bucket.index(), 0)
    if state.iter < state.start_powerSGD_iter:
        if bucket.is_last():
            state.iter += 1
        return allreduce_hook(group, bucket)
    side = math.isqrt(max(len(buffer) - 1, 0)) + 1
    given = oneflow.nn.functional.pad(buffer, (0, side * side - len(buffer)))
    if state.use_error_feedback and (error := state.error_dict.get(bucket.index())) is not None:
        given += error
    matrix = given.view(side, side)
    q = state.q_memory_dict.get(key) if state.warm_start else None
    if q is None:
        # The same on every rank: they draw from equal generators.
        rank = min(side, state.matrix_approximation_rank)
        q = oneflow.randn(side, rank, generator=state.generator, dtype=matrix.dtype).to(matrix.device)
    _orthogonalize(q, state.orthogonalization_epsilon)
    (p,) = _averaged([matrix @ q], group)
    _orthogonalize(p, state.orthogonalization_epsilon)
    (q,) = _averaged([matrix.t() @ p], group)
    state.q_memory_dict[key] = q
    product = (p @ q.t()).view(-1)
    if state.use_error_feedback:
        state.error_dict[bucket.index()] = given - product
    if bucket.is_last():
        state.iter += 1
    done: Future = Future()
    done.set_result(buffer.copy_(product[: len(buffer)]))
    return done


def _averaged(tensors: list[Tensor], group: Any) -> list[Tensor]:
    flat = oneflow.cat([t.reshape(-1) for t in tensors])
    distributed.all_reduce(flat, distributed.ReduceOp.AVG, group)
    return [part.view(t.shape) for part, t in zip(flat.split([t.numel() for t in tensors]), tensors, strict=True)]


def _orthogonalize(matrix: Tensor, epsilon: float) -> None:
    """Make columns of length one, each at right angles to those before."""
    if matrix.shape[1] > 2 and matrix.dtype in (oneflow.float32, oneflow.float64):
        # Exact also where columns depend on each other, as those of a gradient of few samples do.
        matrix.copy_(oneflow.linalg.qr(matrix)[0])
        return
    # Gram and Schmidt.
    for i in range(matrix.shape[1]):
        column = matrix[:, i : i + 1]
        norm = column.norm()
        column /= norm + epsilon if epsilon or norm > 0 else 1.0
        if i + 1 < matrix.shape[1]:
            rest = matrix[:, i + 1 :]
            rest -= (column * rest).sum(0) * column
