"""Averaging parameters often among few ranks, and rarely among many."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from oneflow import distributed
from oneflow.distributed.algorithms.model_averaging.averagers import ModelAverager
from oneflow.distributed.algorithms.model_averaging.utils import average_parameters_or_parameter_groups

__all__ = ["HierarchicalModelAverager"]


class HierarchicalModelAverager(ModelAverager):
    """Averages among groups of neighbouring ranks, each size of group with a period of its own.

    A step that several periods divide averages among the largest of their groups. Parameters without a gradient stay.

    Args:
        period_group_size_dict: for each period, from short to long, how many ranks average: a divisor of those with the
            next period, and at last all.
        warmup_steps: steps without averages at the beginning.
        process_group: the ranks; all of the job if left out. All ranks of the job make the averager.

    Raises:
        ValueError: periods or sizes that are not as described, or a negative number of steps.

    Example::

        >>> from oneflow.distributed.algorithms.model_averaging.hierarchical_model_averager import (
        ...     HierarchicalModelAverager)
        >>> def rank():
        ...     w = nn.Parameter(oneflow.full((1,), float(oneflow.distributed.get_rank())))
        ...     w.grad = oneflow.zeros(1)
        ...     averager = HierarchicalModelAverager({1: 2, 2: 4})
        ...     values = []
        ...     for _ in range(2):
        ...         averager.average_parameters([w])
        ...         values.append(w.item())
        ...     return values
        >>> oneflow.testing.run_ranks(4, rank)[0]
        [1.5, 1.5]
    """

    def __init__(
        self, period_group_size_dict: dict[int, int] | None = None, warmup_steps: int = 0, process_group: Any = None
    ) -> None:
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        periods, sizes = list(period_group_size_dict), list(period_group_size_dict.values())
        n = distributed.get_world_size(process_group)
        if min(periods) <= 0:
            raise ValueError(f"HierarchicalModelAverager: periods are positive, got {periods}")
        if sizes[0] <= 0 or any(b % a for a, b in itertools.pairwise(sizes)):
            raise ValueError(
                f"HierarchicalModelAverager: by period, sizes of groups are divisors of the next one, got {sizes}"
            )
        if sizes[-1] != n:
            raise ValueError(
                f"HierarchicalModelAverager: the last period averages among all {n} ranks, got {sizes[-1]}"
            )
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        self.warmup_steps = warmup_steps
        self.period_process_group_dict: OrderedDict[int, Any] = OrderedDict()
        for period, size in period_group_size_dict.items():
            self.period_process_group_dict[period] = process_group if size == n else self._neighbours(size)

    def _neighbours(self, size: int) -> Any:
        ranks = distributed.get_process_group_ranks(self.process_group)
        own = None
        for first in range(0, len(ranks), size):
            group = distributed.new_group(ranks[first : first + size])
            if distributed.get_rank() in ranks[first : first + size]:
                own = group
        return own

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Count a step, and average among the largest group whose period divides its number."""
        if self.step >= self.warmup_steps:
            due = [period for period in self.period_process_group_dict if self.step % period == 0]
            if due:
                average_parameters_or_parameter_groups(params, self.period_process_group_dict[due[-1]])
        self.step += 1
