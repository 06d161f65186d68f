"""Collectives over several tensors as one operation."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.distributed._groups import _group, _members_only
from oneflow.distributed._work import _CoalescingManager, _Steps

__all__ = ["all_gather_coalesced", "all_reduce_coalesced"]


@_members_only
def all_reduce_coalesced(tensors: list[Tensor], op: str = "sum", group: Any = None, async_op: bool = False) -> Any:
    """Reduce each tensor of a list over all ranks, in place: neighbours of one dtype as one operation.

    Returns:
        With ``async_op`` a future of the list, else ``None``.

    Raises:
        TypeError: ``tensors`` is no list of tensors.
        ValueError: it is empty.

    Example::

        >>> def rank():
        ...     tensors = [oneflow.ones(1), oneflow.ones(2)]
        ...     oneflow.distributed.all_reduce_coalesced(tensors)
        ...     return [t.tolist() for t in tensors]
        >>> oneflow.testing.run_ranks(2, rank)
        [[[2.0], [2.0, 2.0]], [[2.0], [2.0, 2.0]]]
    """
    _check("all_reduce_coalesced", "tensors", tensors)
    manager = _CoalescingManager(_group(group, "all_reduce_coalesced"))
    for tensor in tensors:
        manager._reduce(tensor, op)
    manager._flush()
    return _end(_Steps(manager.works, None, list(tensors)), async_op)


@_members_only
def all_gather_coalesced(
    output_tensor_lists: list[list[Tensor]], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Any:
    """Fill ``output_tensor_lists[rank][i]`` with ``input_tensor_list[i]`` of each rank: one operation for each dtype.

    Returns:
        With ``async_op`` a future of the outputs, else ``None``.

    Raises:
        TypeError: an argument is no list of tensors.
        ValueError: an empty list.
        RuntimeError: not a list for each rank, or an output differs in dtype or shape from its input.

    Example::

        >>> def rank():
        ...     here = float(oneflow.distributed.get_rank())
        ...     got = [[oneflow.zeros(1), oneflow.zeros(2)] for _ in range(2)]
        ...     oneflow.distributed.all_gather_coalesced(got, [oneflow.full((1,), here), oneflow.full((2,), here + 5)])
        ...     return [[t.tolist() for t in row] for row in got]
        >>> oneflow.testing.run_ranks(2, rank)[0]
        [[[0.0], [5.0, 5.0]], [[1.0], [6.0, 6.0]]]
    """
    name = "all_gather_coalesced"
    _check(name, "input_tensor_list", input_tensor_list)
    found = _group(group, name)
    n = found.size()
    if not isinstance(output_tensor_lists, list | tuple):
        raise TypeError(f"Invalid function argument. {name}: output_tensor_lists must be a list of lists of tensors")
    for rank, row in enumerate(output_tensor_lists):
        _check(name, f"output_tensor_lists[{rank}]", row)
    if len(output_tensor_lists) != n:
        raise RuntimeError(f"{name}: output lists should be equal to world size {n}, got {len(output_tensor_lists)}")
    for rank, row in enumerate(output_tensor_lists):
        if len(row) != len(input_tensor_list):
            raise RuntimeError(
                f"{name}: output_tensor_lists[{rank}] has {len(row)} tensors, there are {len(input_tensor_list)} inputs"
            )
        for i, (output, given) in enumerate(zip(row, input_tensor_list, strict=True)):
            if output.shape != given.shape:
                raise RuntimeError(
                    f"{name}: invalid size of output tensor at index {i} of rank {rank}: expected "
                    f"{tuple(given.shape)}, got {tuple(output.shape)}"
                )
            if output.dtype != given.dtype:
                raise RuntimeError(
                    f"{name}: invalid tensor type at index {i} of rank {rank}: expected {given.dtype}, got "
                    f"{output.dtype}"
                )
    works: list[Any] = []
    places: list[tuple[Tensor, list[list[Tensor]]]] = []
    for dtype in dict.fromkeys(tensor.dtype for tensor in input_tensor_list):
        chosen = [i for i, tensor in enumerate(input_tensor_list) if tensor.dtype == dtype]
        with oneflow.no_grad():
            mine = oneflow.cat([input_tensor_list[i].reshape(-1) for i in chosen])
        whole = mine.new_empty(mine.numel() * n)
        works.append(found.issue("all_gather", whole, mine))
        places.append((whole, [[row[i] for i in chosen] for row in output_tensor_lists]))

    def hand_out() -> None:
        with oneflow.no_grad():
            for whole, rows in places:
                for part, row in zip(whole.chunk(n), rows, strict=True):
                    for piece, place in zip(part.split([t.numel() for t in row]), row, strict=True):
                        place.copy_(piece.view(place.shape))

    return _end(_Steps(works, hand_out, [tensor for row in output_tensor_lists for tensor in row]), async_op)


def _broadcast_coalesced(process_group: Any, tensors: list[Tensor], buffer_size: int, src: int = 0) -> None:
    """Overwrite tensors with those of a rank: neighbours of one dtype in one message of up to ``buffer_size`` bytes.

    PyTorch's function of this name, which other packages call. ``src`` is a number in the group.
    """
    name = "_broadcast_coalesced"
    _check(name, "tensors", tensors)
    found = _group(process_group, name)
    parts: list[list[Tensor]] = []
    room = 0
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        if not parts or parts[-1][0].dtype != tensor.dtype or size > room:
            parts.append([])
            room = buffer_size
        parts[-1].append(tensor)
        room -= size
    with oneflow.no_grad():
        for part in parts:
            flat = oneflow.cat([tensor.reshape(-1) for tensor in part])
            found.issue("broadcast", flat, peer=src, wait=True)
            for tensor, piece in zip(part, flat.split([t.numel() for t in part]), strict=True):
                tensor.copy_(piece.view(tensor.shape))


def _check(name: str, argument: str, tensors: Any) -> None:
    if not isinstance(tensors, list | tuple) or not all(isinstance(tensor, Tensor) for tensor in tensors):
        raise TypeError(f"Invalid function argument. {name}: {argument} must be a list of tensors")
    if not tensors:
        raise ValueError(f"{name}: {argument} is empty")


def _end(work: _Steps, async_op: bool) -> Any:
    if async_op:
        return work.get_future()
    work.wait()
    return None
