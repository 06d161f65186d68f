"""Averaging parameters every few steps: the second half of post-local SGD."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import oneflow
from oneflow import Tensor, distributed

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager:
    """Base class: it counts steps in ``step``.

    Example::

        >>> from oneflow.distributed.algorithms.model_averaging.averagers import ModelAverager, PeriodicModelAverager
        >>> isinstance(PeriodicModelAverager(4), ModelAverager)
        True
    """

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = process_group
        self.step = 0

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average parameters, or the parameters of an optimizer's groups."""
        raise NotImplementedError(f"{type(self).__name__} does not define average_parameters")


class PeriodicModelAverager(ModelAverager):
    """Averages every ``period`` steps, after ``warmup_steps``.

    Raises:
        ValueError: a period below 1, or a negative warmup.

    Example::

        >>> from oneflow.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
        >>> def rank():
        ...     w = nn.Parameter(oneflow.full((1,), float(oneflow.distributed.get_rank())))
        ...     PeriodicModelAverager(period=1).average_parameters([w])
        ...     return w.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [0.5, 0.5]
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        self.warmup_steps, self.period = warmup_steps, period

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Count a step, and average where one is due: every ``period`` steps after the warmup."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            average(parameters_of(params), self.process_group)
        self.step += 1


def parameters_of(given: Iterable[Any]) -> list[Tensor]:
    """Parameters, or those of the groups of an optimizer."""
    params = list(given)
    if params and isinstance(params[0], dict):
        return [p for group in params for p in group["params"]]
    return params


@oneflow.no_grad()
def average(params: list[Tensor], group: Any) -> None:
    """Replace parameters by their averages over the ranks of a group."""
    if not params or distributed.get_world_size(group) == 1:
        return
    by_dtype: dict[Any, list[Tensor]] = {}
    for p in params:
        by_dtype.setdefault(p.dtype, []).append(p)
    for same in by_dtype.values():
        flat = oneflow.cat([p.detach().reshape(-1) for p in same])
        distributed.all_reduce(flat, distributed.ReduceOp.AVG, group)
        for p, part in zip(same, flat.split([p.numel() for p in same]), strict=True):
            p.copy_(part.view(p.shape))
