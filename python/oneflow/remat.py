"""OneFlow's rematerialisation within a budget: eager tensors that are dropped and computed again.

There is no such budget here. A budget promises less memory, so setting one raises; activations of chosen parts
of a model are computed again with :func:`oneflow.utils.checkpoint.checkpoint`, and in a graph with
``module.to(nn.graph.GraphModule).activation_checkpointing = True``.
"""

from __future__ import annotations

from oneflow._base.refusals import refuse

__all__ = ["get_budget", "is_small_pieces_optimization_enabled", "set_budget", "set_small_pieces_optimization"]

_INSTEAD = "wrap the parts of a model that may be computed again in oneflow.utils.checkpoint.checkpoint"

set_budget = refuse("oneflow.remat.set_budget", _INSTEAD)
set_small_pieces_optimization = refuse("oneflow.remat.set_small_pieces_optimization", _INSTEAD)


def get_budget() -> int:
    """The budget in bytes: 0, since none can be set.

    Example::

        >>> oneflow.remat.get_budget()
        0
    """
    return 0


def is_small_pieces_optimization_enabled() -> bool:
    """Return whether small tensors are spared from eviction: False, since nothing is evicted.

    Example::

        >>> oneflow.remat.is_small_pieces_optimization_enabled()
        False
    """
    return False
