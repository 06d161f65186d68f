"""What ranks of ``DistributedDataParallel`` tell each other before they train: that they have one model and one way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.purposes import purpose

__all__ = ["agree"]

# Of a parameter or buffer: its name, and what else must be the same.
Described = list[tuple[str, str]]


def agree(
    parameters: Sequence[tuple[str, Tensor]],
    buffers: Sequence[tuple[str, Tensor]],
    settings: dict[str, Any],
    finds_unused: bool,
    group: Any,
) -> bool:
    """Return whether any rank looks for unused parameters: then all do.

    Raises:
        RuntimeError: on all ranks, where two differ in the names, shapes, dtypes or order of parameters or buffers,
            or in settings; it says in which.
    """
    dist = oneflow.distributed
    n = dist.get_world_size(group)
    if n == 1:
        return finds_unused
    import zlib

    mine = {"parameter": _described(parameters), "buffer": _described(buffers)}
    text = repr((mine, settings)).encode()
    # Two checksums of 32 bits.
    told = [zlib.crc32(text), zlib.adler32(text), int(finds_unused)]
    here = oneflow.tensor(told, device=parameters[0][1].device if parameters else "cpu")
    every = oneflow.empty(n * len(told), dtype=here.dtype, device=here.device)
    with purpose("a comparison of the models of DistributedDataParallel"):
        dist.all_gather_into_tensor(every, here, group)
        rows = every.view(n, len(told)).tolist()
        if any(row[:2] != rows[0][:2] for row in rows):
            said: list[Any] = [None] * n
            dist.all_gather_object(said, (mine, settings), group)
            for rank in range(1, n):
                _compare(said[0], said[rank], dist.get_global_rank(group, 0), dist.get_global_rank(group, rank))
    return any(row[2] for row in rows)


def _described(named: Sequence[tuple[str, Tensor]]) -> Described:
    return [(name, f"{t.dtype}, {list(t.shape)}{', trained' if t.requires_grad else ''}") for name, t in named]


def _compare(first: Any, other: Any, first_rank: int, rank: int) -> None:
    expects = "DDP expects same model across all ranks"
    n_first, n_other = (sum("trained" in what for _, what in one[0]["parameter"]) for one in (first, other))
    if n_first != n_other:
        raise RuntimeError(
            f"{expects}, but Rank {first_rank} has {n_first} params, while rank {rank} has inconsistent {n_other} "
            "params"
        )
    for kind, here in first[0].items():
        there = other[0][kind]
        if len(here) != len(there):
            raise RuntimeError(
                f"{expects}, but rank {first_rank} has {len(here)} {kind}s, while rank {rank} has {len(there)}"
            )
        for i, ((name, what), (its_name, its_what)) in enumerate(zip(here, there, strict=True)):
            if (name, what) != (its_name, its_what):
                raise RuntimeError(
                    f"{expects}, but {kind} {i} is '{name}' ({what}) on rank {first_rank}, while rank {rank} has "
                    f"'{its_name}' ({its_what})"
                )
    for name, value in first[1].items():
        if value != other[1][name]:
            raise RuntimeError(
                f"DistributedDataParallel: {name} is {value} on rank {first_rank} and {other[1][name]} on rank {rank}; "
                "it must be the same on all ranks"
            )
