"""Collectives of Python objects and of lists of tensors, over those of single tensors.

Objects travel as pickles: only ranks of one job, which trust each other, are to use them.
"""

from __future__ import annotations

import pickle
import time
from typing import Any

import oneflow
from oneflow import Tensor, distributed
from oneflow.distributed._groups import _group, _members_only
from oneflow.distributed._work import _Steps

__all__ = [
    "all_gather_object",
    "all_to_all",
    "broadcast_object_list",
    "gather_object",
    "monitored_barrier",
    "reduce_scatter",
    "scatter_object_list",
]


# Tags of messages that no user sends.
_MONITORED = 0xFFFF_FF00


def _pack(value: Any) -> Tensor:
    return oneflow.frombuffer(bytearray(pickle.dumps(value)), dtype=oneflow.uint8)


def _unpack(bytes_: Tensor, size: int) -> Any:
    return pickle.loads(bytes_[:size].numpy().tobytes())


@_members_only
def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Fill the list with every rank's object.

    Example::

        >>> def rank():
        ...     got = [None, None]
        ...     oneflow.distributed.all_gather_object(got, "x" * (1 + oneflow.distributed.get_rank()))
        ...     return got
        >>> oneflow.testing.run_ranks(2, rank)
        [['x', 'xx'], ['x', 'xx']]
    """
    n = distributed.get_world_size(group)
    mine = _pack(obj)
    sizes = oneflow.empty(n, dtype=oneflow.int64)
    distributed.all_gather_into_tensor(sizes, oneflow.tensor([mine.numel()]), group)
    lengths = sizes.tolist()
    # Collectives are of one shape: all are as long as the longest.
    padded = oneflow.nn.functional.pad(mine, (0, max(lengths) - mine.numel()))
    together = oneflow.empty((n, max(lengths)), dtype=oneflow.uint8)
    distributed.all_gather_into_tensor(together, padded, group)
    object_list[:] = [_unpack(row, length) for row, length in zip(together, lengths, strict=True)]


@_members_only
def gather_object(obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0, group: Any = None) -> None:
    """Fill the list of rank ``dst`` with every rank's object.

    Raises:
        ValueError: rank ``dst`` gave no list.

    Example::

        >>> def rank():
        ...     got = [None, None] if oneflow.distributed.get_rank() == 0 else None
        ...     oneflow.distributed.gather_object(oneflow.distributed.get_rank(), got)
        ...     return got
        >>> oneflow.testing.run_ranks(2, rank)
        [[0, 1], None]
    """
    here = distributed.get_rank() == dst
    if here and object_gather_list is None:
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
    got: list[Any] = []
    all_gather_object(got, obj, group)
    if here and object_gather_list is not None:
        object_gather_list[:] = got


@_members_only
def broadcast_object_list(object_list: list[Any], src: int = 0, group: Any = None, device: Any = None) -> None:
    """Overwrite the objects of the list with those of rank ``src``.

    Example::

        >>> def rank():
        ...     got = [{"rank": oneflow.distributed.get_rank()}]
        ...     oneflow.distributed.broadcast_object_list(got, src=1)
        ...     return got
        >>> oneflow.testing.run_ranks(2, rank)
        [[{'rank': 1}], [{'rank': 1}]]
    """
    mine = _pack(object_list)
    size = oneflow.tensor([mine.numel()])
    distributed.broadcast(size, src, group)
    here = distributed.get_rank() == src
    packed = mine if here else oneflow.empty(int(size), dtype=oneflow.uint8)
    distributed.broadcast(packed, src, group)
    if not here:
        object_list[:] = _unpack(packed, packed.numel())


@_members_only
def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None, src: int = 0, group: Any = None
) -> None:
    """Give each rank its object of the list that rank ``src`` has; it becomes the first of the output list.

    Raises:
        ValueError: the output list is empty.

    Example::

        >>> def rank():
        ...     got = [None]
        ...     oneflow.distributed.scatter_object_list(got, ["a", "b"])
        ...     return got
        >>> oneflow.testing.run_ranks(2, rank)
        [['a'], ['b']]
    """
    if not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    all_ = [scatter_object_input_list if distributed.get_rank() == src else None]
    broadcast_object_list(all_, src, group)
    scatter_object_output_list[0] = all_[0][distributed.get_rank(group)]  # type: ignore[index]


@_members_only
def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: str = "sum", group: Any = None, async_op: bool = False
) -> Any:
    """Reduce the lists of all ranks element by element and leave this rank's in ``output``; shapes may differ by rank.

    Example::

        >>> def rank():
        ...     output = oneflow.zeros(1)
        ...     oneflow.distributed.reduce_scatter(output, [oneflow.ones(1), oneflow.full((1,), 2.0)])
        ...     return output.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [2.0, 4.0]
    """
    counts = distributed._counts("reduce_scatter", "input_list", input_list, output, group)
    flat = output.new_empty(output.numel())
    work = _group(group).issue("reduce_scatter", flat, distributed._joined(input_list), op=op, counts=counts)
    return distributed._finish(_Steps([work], lambda: distributed._hand_out(flat, [output])), async_op)


@_members_only
def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Any:
    """Send tensor ``i`` of the input list to rank ``i`` and receive its in the output list; shapes may differ.

    Example::

        >>> def rank():
        ...     got = [oneflow.zeros(1), oneflow.zeros(1)]
        ...     mine = 10.0 * oneflow.distributed.get_rank()
        ...     oneflow.distributed.all_to_all(got, [oneflow.full((1,), mine), oneflow.full((1,), mine + 1)])
        ...     return [t.item() for t in got]
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 10.0], [1.0, 11.0]]
    """
    if not input_tensor_list:
        raise ValueError("all_to_all: input_tensor_list is empty")
    first = input_tensor_list[0]
    sent = distributed._counts("all_to_all", "input_tensor_list", input_tensor_list, first, group)
    received = distributed._counts("all_to_all", "output_tensor_list", output_tensor_list, first, group)
    flat = first.new_empty(sum(received))
    together = distributed._joined(input_tensor_list)
    work = _group(group).issue("all_to_all", flat, together, counts=sent, recv_counts=received)
    return distributed._finish(_Steps([work], lambda: distributed._hand_out(flat, output_tensor_list)), async_op)


@_members_only
def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Wait until every rank has called it, at most for ``timeout``; the error names the ranks that are missing.

    The group cannot be used after such an error: every rank that waits, here or elsewhere, gets it.

    Args:
        timeout: a ``datetime.timedelta`` or seconds; the time of every collective by default.
        wait_all_ranks: accepted; all missing ranks are named in any case.

    Raises:
        RuntimeError: a rank did not come in time, or failed.

    Example::

        >>> oneflow.testing.run_ranks(2, oneflow.distributed.monitored_barrier)
        [None, None]
    """
    pg = _group(group)
    here, ranks = pg.rank(), list(pg.ranks())
    seconds = distributed._seconds(timeout)
    if seconds is not None and not seconds > 0:
        raise ValueError(f"monitored_barrier: timeout must be positive, got {timeout}")
    if seconds is None:
        pg.barrier()
        return
    word = oneflow.empty(0)
    others = [peer for peer in range(len(ranks)) if peer != here]
    if here:
        # Rank 0 says who is missing, so the others leave that to it as long as it lives.
        pg.issue("send", word, peer=0, tag=_MONITORED).wait()
        pg.issue("recv", word, peer=0, tag=_MONITORED + 1).wait(2 * seconds + 10)
        return
    arrivals = {peer: pg.issue("recv", word, peer=peer, tag=_MONITORED) for peer in others}
    deadline = time.monotonic() + seconds
    while missing := [peer for peer, work in arrivals.items() if not work.is_completed()]:
        if time.monotonic() >= deadline:
            named = ", ".join(str(ranks[peer]) for peer in missing)
            text = f"monitored_barrier: rank(s) {named} of {len(ranks)} did not arrive within {seconds:g} s"
            pg.abort(text)
            raise RuntimeError(text)
        time.sleep(0.002)
    for work in arrivals.values():
        work.wait()
    for peer in others:
        pg.issue("send", word, peer=peer, tag=_MONITORED + 1).wait()
