"""Base classes of the options of saving and loading."""

from __future__ import annotations

__all__ = ["LoadPlanner", "SavePlanner"]


class SavePlanner:
    """Base class of :class:`DefaultSavePlanner`, which is what there is: what each rank writes is decided by the
    package.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> isinstance(dcp.DefaultSavePlanner(), dcp.SavePlanner)
        True
    """


class LoadPlanner:
    """Base class of :class:`DefaultLoadPlanner`, which is what there is.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> isinstance(dcp.DefaultLoadPlanner(), dcp.LoadPlanner)
        True
    """
