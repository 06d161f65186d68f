"""Tensors between stages of a pipeline: a message says its own shapes, so they may differ between micro-batches."""

from __future__ import annotations

import math
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.distributed import _point_to_point

__all__ = ["Messages"]

_DTYPES = (
    oneflow.float32,
    oneflow.float64,
    oneflow.float16,
    oneflow.bfloat16,
    oneflow.int64,
    oneflow.int32,
    oneflow.int16,
    oneflow.int8,
    oneflow.uint8,
    oneflow.bool,
    oneflow.complex64,
    oneflow.complex128,
)
# Numbers of a header, and tensors of a message.
_HEADER = 256
_MOST = 63


class Messages:
    """Sends that nobody waits for before the end of a step, and receives.

    Args:
        group: of the pipeline's ranks.
        n_micro_batches: of a step.
    """

    def __init__(self, group: Any, n_micro_batches: int) -> None:
        self._group, self._n = group, n_micro_batches
        # Works with the tensors that they read.
        self._open: list[tuple[Any, Tensor]] = []

    def _tag(self, stage: int, backward: bool, micro_batch: int) -> int:
        return ((2 * stage + backward) * self._n + micro_batch) * (_MOST + 1)

    def send(self, rank: int, stage: int, backward: bool, micro_batch: int, tensors: list[Tensor]) -> None:
        """Start sending what ``stage`` needs; ``rank`` is a number in the group.

        Raises:
            TypeError: a tensor of a dtype that no message carries.
            ValueError: too many tensors, or dimensions.
        """
        words = [len(tensors)]
        for t in tensors:
            if t.dtype not in _DTYPES:
                raise TypeError(f"pipeline: a stage hands on a tensor of {t.dtype}, which no message carries")
            words += [_DTYPES.index(t.dtype), int(t.requires_grad), t.dim(), *t.shape]
        if len(words) > _HEADER or len(tensors) > _MOST:
            raise ValueError(f"pipeline: a stage hands on {len(tensors)} tensors, more than a message holds ({_MOST})")
        header = oneflow.tensor(words + [0] * (_HEADER - len(words)), dtype=oneflow.int64)
        tag = self._tag(stage, backward, micro_batch)
        self._open = [(work, t) for work, t in self._open if not work.is_completed()]
        for i, t in enumerate([header, *tensors]):
            # Tensors of a GPU go by the host: messages between GPUs have no tags, and schedules cross.
            t = t.detach().contiguous().cpu()
            self._open.append((_point_to_point.isend(t, group=self._group, group_dst=rank, tag=tag + i), t))

    def receive(self, rank: int, stage: int, backward: bool, micro_batch: int, device: Any) -> list[Tensor]:
        """Return what :meth:`send` of ``rank`` sent for ``stage``; tensors require a gradient where they did there.

        Raises:
            RuntimeError: what came is no message of a pipeline, or the rank is gone.
        """
        tag = self._tag(stage, backward, micro_batch)
        header = oneflow.empty(_HEADER, dtype=oneflow.int64)
        _point_to_point.recv(header, group=self._group, group_src=rank, tag=tag)
        tensors = []
        for i, (dtype, wants, sizes) in enumerate(_read(header.tolist(), rank)):
            t = oneflow.empty(sizes, dtype=dtype)
            _point_to_point.recv(t, group=self._group, group_src=rank, tag=tag + 1 + i)
            tensors.append(t.to(device).requires_grad_(wants))
        return tensors

    def finish(self) -> None:
        """Wait until everything has been sent."""
        works, self._open = self._open, []
        for work, _ in works:
            work.wait()

    def forget(self) -> None:
        """Let go of sends after a failure."""
        self._open = []


def _read(words: list[int], rank: int) -> list[tuple[Any, bool, list[int]]]:
    """The tensors that a header describes."""
    fault = RuntimeError(f"pipeline: rank {rank} of the group sent something else than tensors of a stage")
    n, at, found = words[0], 1, []
    if not 0 <= n <= _MOST:
        raise fault
    for _ in range(n):
        if at + 3 > len(words):
            raise fault
        dtype, wants, dims = words[at : at + 3]
        sizes = words[at + 3 : at + 3 + max(dims, 0)]
        at += 3 + len(sizes)
        if not 0 <= dtype < len(_DTYPES) or dims != len(sizes) or any(s < 0 for s in sizes) or wants not in (0, 1):
            raise fault
        if math.prod(sizes) >= 1 << 48:
            raise fault
        found.append((_DTYPES[dtype], bool(wants), sizes))
    return found
