"""Layouts chosen by cost: a graph's step is traced on one rank; its parameters and inputs are laid out on a cluster.

The planner searches meshes of the cluster's devices, and for each the splits of parameters, inputs and ops; with
several micro-batches also pipeline stages; where the fastest does not fit in the memory, stages of ZeRO and blocks that
run again in the backward. A plan runs as it was estimated: what a call needs other layouts for than the rule of eager
execution chooses is written in it. Numbers of micro-batches are those that it is given.

``graph.config.enable_auto_parallel()`` plans in the first call of a graph.

Example::

    >>> class Step(oneflow.nn.Graph):
    ...     def __init__(self, model):
    ...         super().__init__()
    ...         self.model = model
    ...         self.add_optimizer(oneflow.optim.SGD(model.parameters(), lr=0.1))
    ...     def build(self, x):
    ...         loss = self.model(x).square().mean()
    ...         loss.backward()
    ...         return loss
    >>> step = Step(oneflow.nn.Linear(64, 64))
    >>> found = oneflow.auto_parallel.plan(step, oneflow.ones(4096, 64), cluster="4xcpu")
    >>> found.layouts["model.weight"]
    ('S(0)',)
"""

from oneflow.auto_parallel._graphs import laid_out as _laid_out
from oneflow.auto_parallel._plan import Plan
from oneflow.auto_parallel._search import plan
from oneflow.auto_parallel.cluster import Cluster, Link

__all__ = ["Cluster", "Link", "Plan", "plan"]
