"""Options of saving and loading under PyTorch's names."""

from __future__ import annotations

from oneflow.distributed.checkpoint.planner import LoadPlanner, SavePlanner

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]


class DefaultSavePlanner(SavePlanner):
    """Nested dictionaries are flattened; what several ranks hold is written once, by the rank with least to write.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> planner = dcp.DefaultSavePlanner()
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
    ) -> None:
        if not flatten_state_dict:
            raise NotImplementedError("DefaultSavePlanner: state dictionaries are always flattened")


class DefaultLoadPlanner(LoadPlanner):
    """Entries are read in place.

    Args:
        allow_partial_load: entries that the checkpoint lacks stay as they are, in place of an error.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> dcp.DefaultLoadPlanner(allow_partial_load=True).allow_partial_load
        True
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, allow_partial_load: bool = False
    ) -> None:
        if not flatten_state_dict:
            raise NotImplementedError("DefaultLoadPlanner: state dictionaries are always flattened")
        self.allow_partial_load = allow_partial_load
