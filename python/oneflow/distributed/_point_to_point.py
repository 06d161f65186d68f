"""Messages between two ranks, with tags, from one rank or from any, and several as one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow import Tensor
from oneflow.distributed import _groups
from oneflow.distributed._groups import _group, _members_only, _root

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]

# A receive that takes a message of whichever rank.
_ANY = -1


def _peer(name: str, what: str, group: Any, rank: int | None, group_rank: int | None) -> int:
    if rank is None and group_rank is None:
        raise ValueError(f"{name}: give one of {what} and group_{what}")
    peer, here = _root(name, what, group, rank, group_rank), _group(group).rank()
    if peer == here:
        raise ValueError(f"{name}: {what} is this rank itself, {here}")
    return peer


@_members_only
def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send ``tensor`` to rank ``dst``.

    Args:
        dst: a number in the world, ``group_dst`` one in the group.
        tag: the receive names the same; messages of one tag arrive in their order.

    Raises:
        ValueError: ``dst`` is this rank itself, or not given.

    Example::

        >>> def rank():
        ...     x = oneflow.full((2,), float(oneflow.distributed.get_rank()))
        ...     if oneflow.distributed.get_rank() == 0:
        ...         oneflow.distributed.send(x, 1)
        ...     else:
        ...         oneflow.distributed.recv(x, 0)
        ...     return x.tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 0.0], [0.0, 0.0]]
    """
    _group(group).issue("send", tensor, peer=_peer("isend", "dst", group, dst, group_dst), tag=tag, wait=True)


@_members_only
def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive the next message of rank ``src`` with this tag into ``tensor``; return that rank's number in the world.

    Args:
        src: a number in the world, ``group_src`` one in the group; whichever rank sends first by default.

    Example::

        >>> def rank():
        ...     x = oneflow.full((2,), float(oneflow.distributed.get_rank()))
        ...     if oneflow.distributed.get_rank() == 0:
        ...         oneflow.distributed.send(x, 1)
        ...     else:
        ...         oneflow.distributed.recv(x, 0)
        ...     return x.tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 0.0], [0.0, 0.0]]
    """
    if src is None and group_src is None:
        work = irecv(tensor, group=group, tag=tag)
        work.wait()
        return _group(group).ranks()[work.source_rank()]
    peer = _peer("irecv", "src", group, src, group_src)
    _group(group).issue("recv", tensor, peer=peer, tag=tag, wait=True)
    return _group(group).ranks()[peer]


@_members_only
def isend(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> Any:
    """Start sending and return the work.

    Example::

        >>> def rank():
        ...     x = oneflow.full((2,), float(oneflow.distributed.get_rank()))
        ...     if oneflow.distributed.get_rank() == 0:
        ...         oneflow.distributed.isend(x, 1).wait()
        ...     else:
        ...         oneflow.distributed.irecv(x, 0).wait()
        ...     return x.tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 0.0], [0.0, 0.0]]
    """
    return _group(group).issue("send", tensor, peer=_peer("isend", "dst", group, dst, group_dst), tag=tag)


@_members_only
def irecv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> Any:
    """Start receiving and return the work, which tells with ``source_rank()`` whose message it was.

    Without ``src`` and ``group_src`` it is the first message with this tag of whichever rank.

    Example::

        >>> def rank():
        ...     x = oneflow.full((2,), float(oneflow.distributed.get_rank()))
        ...     if oneflow.distributed.get_rank() == 0:
        ...         oneflow.distributed.isend(x, 1).wait()
        ...     else:
        ...         oneflow.distributed.irecv(x, 0).wait()
        ...     return x.tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 0.0], [0.0, 0.0]]
    """
    peer = _ANY if src is None and group_src is None else _peer("irecv", "src", group, src, group_src)
    return _group(group).issue("recv", tensor, peer=peer, tag=tag)


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
        if op not in (isend, irecv):
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
    """Start all the operations and return their works. Those on a GPU run as one, so none of them waits for another.

    Of a group's GPUs, all ranks take part where this is the first that they exchange, as in PyTorch.

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
    first = p2p_op_list[0]
    if all(op.tensor.is_cuda and op.group is first.group for op in p2p_op_list):
        return _group(first.group).issue_all([_item(op) for op in p2p_op_list])
    return [op.op(op.tensor, op.peer, op.group, op.tag) for op in p2p_op_list]


def _item(op: P2POp) -> tuple[str, Tensor, None, dict[str, Any]]:
    kind, what = ("send", "dst") if op.op is isend else ("recv", "src")
    peer = _peer(f"i{kind}", what, op.group, op.peer, None)
    return kind, op.tensor, None, {"peer": peer, "tag": op.tag}
