"""Collectives of Python objects and of lists of tensors, over those of single tensors.

Objects travel as pickles that are read without trust (``_pickling.py``), unless both ranks opt in or are threads of
one process.
"""

from __future__ import annotations

import time
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.distributed import _pickling
from oneflow.distributed._groups import _group, _members_only, _root

__all__ = [
    "all_gather_object",
    "all_to_all",
    "broadcast_object_list",
    "gather_object",
    "monitored_barrier",
    "recv_object_list",
    "reduce_scatter",
    "scatter_object_list",
    "send_object_list",
]


# Tags of messages that no user sends.
_MONITORED = 0xFFFF_FF00


class _Packer:
    """How one call's objects become bytes and are read again."""

    def __init__(self, name: str, group: Any, weights_only: bool | None) -> None:
        # Ranks that are threads of one process share everything anyway.
        is_one_process = weights_only is None and _group(group).backend() == "fake"
        self.name, self.group, self.weights_only = name, group, False if is_one_process else weights_only

    def pack(self, value: Any) -> Tensor:
        return oneflow.frombuffer(_pickling.pack(value, self.weights_only), dtype=oneflow.uint8)

    def unpack(self, bytes_: Tensor, size: int, peer: int) -> Any:
        rank = _group(self.group).ranks()[peer]
        return _pickling.unpack(bytes_[:size].numpy().tobytes(), self.name, rank, self.weights_only)


def _gathered(packer: _Packer, obj: Any) -> list[Tensor]:
    """Every rank's packed object."""
    group, n = packer.group, oneflow.distributed.get_world_size(packer.group)
    mine = packer.pack(obj)
    sizes = oneflow.empty(n, dtype=oneflow.int64)
    oneflow.distributed.all_gather_into_tensor(sizes, oneflow.tensor([mine.numel()]), group)
    packed = [oneflow.empty(size, dtype=oneflow.uint8) for size in sizes.tolist()]
    oneflow.distributed.all_gather(packed, mine, group)
    return packed


@_members_only
def all_gather_object(object_list: list[Any], obj: Any, group: Any = None, weights_only: bool | None = None) -> None:
    """Fill the list with every rank's object.

    Args:
        weights_only: ``False`` on both ranks lets an object be of any class, whose code then runs; by default
        objects are of
            the kinds that :func:`oneflow.load` reads, and ``ONEFLOW_TRUST_RANKS=1`` changes the default.

    Raises:
        pickle.UnpicklingError: an object is of a class that is not allowed.

    Example::

        >>> def rank():
        ...     got = [None, None]
        ...     oneflow.distributed.all_gather_object(got, "x" * (1 + oneflow.distributed.get_rank()))
        ...     return got
        >>> oneflow.testing.run_ranks(2, rank)
        [['x', 'xx'], ['x', 'xx']]
    """
    packer = _Packer("all_gather_object", group, weights_only)
    packed = _gathered(packer, obj)
    object_list[:] = [packer.unpack(data, data.numel(), peer) for peer, data in enumerate(packed)]


@_members_only
def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
    weights_only: bool | None = None,
) -> None:
    """Fill the list of rank ``dst`` with every rank's object; the others read nothing.

    Args:
        dst: a number in the world, ``group_dst`` one in the group; rank 0 by default.
        weights_only: as of :func:`all_gather_object`.

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
    here = oneflow.distributed.get_rank(group) == _root("gather_object", "dst", group, dst, group_dst)
    if here and object_gather_list is None:
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
    packer = _Packer("gather_object", group, weights_only)
    packed = _gathered(packer, obj)
    if here and object_gather_list is not None:
        object_gather_list[:] = [packer.unpack(data, data.numel(), peer) for peer, data in enumerate(packed)]


@_members_only
def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    weights_only: bool | None = None,
) -> None:
    """Overwrite the objects of the list with those of rank ``src``.

    Args:
        src: a number in the world, ``group_src`` one in the group; rank 0 by default.
        device: accepted; tensors arrive on the devices that they were on.
        weights_only: as of :func:`all_gather_object`.

    Raises:
        ValueError: the lists differ in length.

    Example::

        >>> def rank():
        ...     got = [{"rank": oneflow.distributed.get_rank()}]
        ...     oneflow.distributed.broadcast_object_list(got, src=1)
        ...     return got
        >>> oneflow.testing.run_ranks(2, rank)
        [[{'rank': 1}], [{'rank': 1}]]
    """
    peer = _root("broadcast_object_list", "src", group, src, group_src)
    packer = _Packer("broadcast_object_list", group, weights_only)
    here = oneflow.distributed.get_rank(group) == peer
    mine = packer.pack(list(object_list)) if here else None
    size = oneflow.tensor([mine.numel() if mine is not None else 0])
    oneflow.distributed.broadcast(size, group=group, group_src=peer)
    packed = oneflow.empty(int(size), dtype=oneflow.uint8) if mine is None else mine
    oneflow.distributed.broadcast(packed, group=group, group_src=peer)
    if not here:
        _fill("broadcast_object_list", object_list, packer.unpack(packed, packed.numel(), peer))


def _fill(name: str, places: list[Any], found: Any) -> None:
    if not isinstance(found, list) or len(found) != len(places):
        said = len(found) if isinstance(found, list) else "no list"
        raise ValueError(f"{name}: object_list has {len(places)} places here, but {said} objects were sent")
    places[:] = found


@_members_only
def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
    weights_only: bool | None = None,
) -> None:
    """Give each rank its object of the list that rank ``src`` has; it becomes the first of the output list.

    Args:
        src: a number in the world, ``group_src`` one in the group; rank 0 by default.
        weights_only: as of :func:`all_gather_object`.

    Raises:
        ValueError: the output list is empty, or the input list has not an object for each rank.

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
    peer, n = _root("scatter_object_list", "src", group, src, group_src), oneflow.distributed.get_world_size(group)
    packer = _Packer("scatter_object_list", group, weights_only)
    packed = None
    if oneflow.distributed.get_rank(group) == peer:
        if scatter_object_input_list is None or len(scatter_object_input_list) != n:
            raise ValueError(f"scatter_object_list: rank src needs a scatter_object_input_list of {n} objects")
        packed = [packer.pack(value) for value in scatter_object_input_list]
    sizes = oneflow.tensor([part.numel() for part in packed] if packed else [0] * n)
    oneflow.distributed.broadcast(sizes, group=group, group_src=peer)
    longest, mine = max(sizes.tolist()), int(sizes[oneflow.distributed.get_rank(group)])
    # Pieces of a scatter are of one length: all are as long as the longest.
    parts = packed and [oneflow.nn.functional.pad(part, (0, longest - part.numel())) for part in packed]
    got = oneflow.empty(longest, dtype=oneflow.uint8)
    oneflow.distributed.scatter(got, parts, group=group, group_src=peer)
    scatter_object_output_list[0] = packer.unpack(got, mine, peer)


@_members_only
def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
    weights_only: bool | None = None,
) -> None:
    """Send the objects of a list to rank ``dst``, which calls :func:`recv_object_list`.

    Args:
        dst: a number in the world, ``group_dst`` one in the group.
        device: accepted; tensors arrive on the devices that they were on.
        use_batch: accepted; the messages are the same.
        weights_only: as of :func:`all_gather_object`.

    Raises:
        ValueError: ``dst`` is this rank itself, or not given.

    Example::

        >>> def rank():
        ...     got = [None]
        ...     if oneflow.distributed.get_rank() == 0:
        ...         oneflow.distributed.send_object_list(["hello"], 1)
        ...     else:
        ...         oneflow.distributed.recv_object_list(got, 0)
        ...     return got
        >>> oneflow.testing.run_ranks(2, rank)
        [[None], ['hello']]
    """
    mine = _Packer("send_object_list", group, weights_only).pack(list(object_list))
    for tensor in (oneflow.tensor([mine.numel()]), mine):
        oneflow.distributed.send(tensor, dst, group, group_dst=group_dst)


@_members_only
def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
    weights_only: bool | None = None,
) -> int:
    """Overwrite the objects of a list with those that a rank sends with :func:`send_object_list`; return that rank.

    Args:
        src: a number in the world, ``group_src`` one in the group; from any rank by default.
        device: accepted; tensors arrive on the devices that they were on.
        use_batch: accepted; the messages are the same.
        weights_only: as of :func:`all_gather_object`.

    Raises:
        ValueError: the lists differ in length.

    Example::

        >>> def rank():
        ...     got = [None]
        ...     if oneflow.distributed.get_rank() == 0:
        ...         oneflow.distributed.send_object_list([{"a": 1}], 1)
        ...         return None
        ...     return oneflow.distributed.recv_object_list(got), got
        >>> oneflow.testing.run_ranks(2, rank)
        [None, (0, [{'a': 1}])]
    """
    size = oneflow.empty(1, dtype=oneflow.int64)
    found = oneflow.distributed.recv(size, src, group, group_src=group_src)
    packed = oneflow.empty(int(size), dtype=oneflow.uint8)
    oneflow.distributed.recv(packed, found, group)
    packer = _Packer("recv_object_list", group, weights_only)
    peer = list(_group(group).ranks()).index(found)
    _fill("recv_object_list", object_list, packer.unpack(packed, packed.numel(), peer))
    return found


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
    counts = oneflow.distributed._counts("reduce_scatter", "input_list", input_list, output, group)
    flat = output.new_empty(output.numel())
    together = oneflow.distributed._joined(input_list)
    then = lambda: oneflow.distributed._hand_out(flat, [output])  # noqa: E731
    return oneflow.distributed._run_then(
        group, async_op, then, [output], "reduce_scatter", flat, together, op=op, counts=counts
    )


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
    sent = oneflow.distributed._counts("all_to_all", "input_tensor_list", input_tensor_list, first, group)
    received = oneflow.distributed._counts("all_to_all", "output_tensor_list", output_tensor_list, first, group)
    flat = first.new_empty(sum(received))
    together = oneflow.distributed._joined(input_tensor_list)
    then = lambda: oneflow.distributed._hand_out(flat, output_tensor_list)  # noqa: E731
    return oneflow.distributed._run_then(
        group, async_op, then, output_tensor_list, "all_to_all", flat, together, counts=sent, recv_counts=received
    )


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
    seconds = oneflow.distributed._seconds(timeout)
    if seconds is not None and not seconds > 0:
        raise ValueError(f"monitored_barrier: timeout must be positive, got {timeout}")
    try:
        if seconds is None:
            pg._wait_barrier()
        else:
            _wait_for_all(pg, seconds)
    except RuntimeError as error:
        raise RuntimeError(f"monitored_barrier: {error}") from None


def _wait_for_all(pg: Any, seconds: float) -> None:
    """Wait for a message of each rank at the first one, and for its answer at the others."""
    here, ranks = pg.rank(), list(pg.ranks())
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
            text = f"rank(s) {named} of {len(ranks)} did not arrive within {seconds:g} s"
            pg.abort(f"monitored_barrier: {text}")
            raise RuntimeError(f"on rank {here} of group '{pg.name()}': {text}")
        time.sleep(0.002)
    for work in arrivals.values():
        work.wait()
    for peer in others:
        pg.issue("send", word, peer=peer, tag=_MONITORED + 1).wait()
