"""The module in which PyTorch keeps process groups, for code that imports its names from there.

Its public names are those of :mod:`oneflow.distributed`. Of what PyTorch keeps for itself there is what other
packages are known to use; its tables of groups are not here.
"""

from __future__ import annotations

from typing import Any

from oneflow import distributed
from oneflow.distributed import *  # noqa: F403
from oneflow.distributed import (
    _all_gather_base,
    _broadcast_coalesced,
    _coalescing_manager,
    _joining,
    _rank_not_in_group,
    _reduce_scatter_base,
    default_pg_timeout,
)

default_pg_nccl_timeout = default_pg_timeout

__all__ = [*distributed.__all__]
_private = (
    _all_gather_base,
    _broadcast_coalesced,
    _coalescing_manager,
    _rank_not_in_group,
    _reduce_scatter_base,
)


def _get_default_group() -> Any:
    """The group of all ranks.

    Raises:
        ValueError: this process has not joined a job.
    """
    if not distributed.is_initialized():
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return distributed.group.WORLD


def _get_default_store() -> Any:
    """A store that all ranks share: that of the program, or the one in which they met. Its timeout is the group's.

    Raises:
        ValueError: this process has not joined a job.
        NotImplementedError: the ranks met without a store.
    """
    timeout = _get_default_group().timeout()
    return _joining._default_store(timeout)


def _get_process_group_name(group: Any) -> str:
    """The name of a group, the same on all of its ranks."""
    return str(group.name())
