"""Operations in several steps as one work, and point-to-point operations as objects."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from oneflow import Tensor
from oneflow.distributed import _groups

__all__ = ["P2POp", "batch_isend_irecv"]


class _Steps:
    """Works that are one to the user, and what follows once they are complete: it happens in :meth:`wait`."""

    def __init__(self, works: list[Any], then: Callable[[], None] | None = None) -> None:
        self._works, self._then = works, then

    def wait(self, timeout: datetime.timedelta | float | None = None) -> bool:
        for work in self._works:
            work.wait(timeout)
        then, self._then = self._then, None
        if then is not None:
            then()
        return True

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def exception(self) -> BaseException | None:
        return next((e for e in (work.exception() for work in self._works) if e is not None), None)


class P2POp:
    """A send or a receive for :func:`batch_isend_irecv`.

    Args:
        op: ``isend`` or ``irecv``.
        tensor: what is sent, or where it goes.
        peer: the other rank, by its number in the world; ``group_peer`` by that in the group.

    Raises:
        ValueError: another ``op``, or not one of ``peer`` and ``group_peer``.

    Example::

        >>> def rank():
        ...     dist, other = oneflow.distributed, 1 - oneflow.distributed.get_rank()
        ...     got = oneflow.zeros(1)
        ...     mine = oneflow.full((1,), float(dist.get_rank()))
        ...     ops = [dist.P2POp(dist.isend, mine, other), dist.P2POp(dist.irecv, got, other)]
        ...     for work in dist.batch_isend_irecv(ops):
        ...         work.wait()
        ...     return got.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [1.0, 0.0]
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        from oneflow import distributed

        if op not in (distributed.isend, distributed.irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        if (peer is None) == (group_peer is None):
            raise ValueError("P2POp: give one of peer and group_peer")
        self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
        self.peer = _groups.get_global_rank(group, group_peer or 0) if peer is None else peer
        self.group_peer = group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Any]:
    """Start all the operations and return their works.

    Raises:
        ValueError: the list is empty, or holds something else.

    Example::

        >>> def rank():
        ...     dist, other = oneflow.distributed, 1 - oneflow.distributed.get_rank()
        ...     got = oneflow.zeros(2)
        ...     ops = [dist.P2POp(dist.isend, oneflow.ones(2), other), dist.P2POp(dist.irecv, got, other)]
        ...     return [work.wait() for work in dist.batch_isend_irecv(ops)], got.tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [([True, True], [1.0, 1.0]), ([True, True], [1.0, 1.0])]
    """
    if not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each element is expected to be of type ``torch.distributed.P2POp``, and there "
            "must be one."
        )
    return [op.op(op.tensor, op.peer, op.group, op.tag) for op in p2p_op_list]
