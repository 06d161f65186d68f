"""Averages of parameters over ranks, as functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from oneflow import Tensor
from oneflow.distributed.algorithms.model_averaging.averagers import average, parameters_of

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params: Iterator[Tensor], process_group: Any) -> None:
    """Replace parameters by their averages over the ranks of a group.

    Example::

        >>> from oneflow.distributed.algorithms.model_averaging.utils import average_parameters
        >>> def rank():
        ...     w = nn.Parameter(oneflow.full((1,), float(oneflow.distributed.get_rank())))
        ...     average_parameters(iter([w]), None)
        ...     return w.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [0.5, 0.5]
    """
    average(list(params), process_group)


def get_params_to_average(params: Iterable[Any]) -> list[Tensor]:
    """Return the parameters that have a gradient, of parameters or of the groups of an optimizer.

    Example::

        >>> from oneflow.distributed.algorithms.model_averaging.utils import get_params_to_average
        >>> used, unused = nn.Parameter(oneflow.ones(1)), nn.Parameter(oneflow.ones(1))
        >>> used.sum().backward()
        >>> get_params_to_average([{"params": [used, unused]}])[0] is used
        True
    """
    return [p for p in parameters_of(params) if p.grad is not None]


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: Any) -> None:
    """Average what :func:`get_params_to_average` returns.

    Example::

        >>> from oneflow.distributed.algorithms.model_averaging.utils import average_parameters_or_parameter_groups
        >>> def rank():
        ...     w = nn.Parameter(oneflow.full((1,), float(oneflow.distributed.get_rank())))
        ...     w.sum().backward()
        ...     average_parameters_or_parameter_groups([{"params": [w]}], None)
        ...     return w.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [0.5, 0.5]
    """
    average_parameters(iter(get_params_to_average(params)), process_group)
