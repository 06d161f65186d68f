"""Ranks with different numbers of batches: those that are done take part in the collectives of the others."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import oneflow
from oneflow import Tensor, distributed
from oneflow.nn.parallel import DistributedDataParallel

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a rank that is done does in place of an iteration, and what all do at the end.

    Example::

        >>> from oneflow.distributed.algorithms.join import JoinHook
        >>> JoinHook().main_hook()
    """

    def main_hook(self) -> None:
        """Take part in the collectives of one iteration."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Run once all ranks are done; ``is_last_joiner`` on those that had the most batches."""


class Config(NamedTuple):
    """What a :class:`Join` has told its participants."""

    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool


class Joinable(ABC):
    """A participant: it calls :meth:`Join.notify_join_context` once an iteration, before its collectives.

    Example::

        >>> from oneflow.distributed.algorithms.join import Joinable
        >>> issubclass(nn.parallel.DistributedDataParallel, Joinable)
        True
    """

    _join_config: Config | None = None

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hooks; ``kwargs`` are those of :class:`Join`."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device of the tensors that ranks tell each other."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The ranks that take part."""


Joinable.register(DistributedDataParallel)


class Join:
    """Inside, ranks may end their loops at different times. All ranks of the group enter and leave it.

    Args:
        joinables: participants of one process group.
        enable: false where all have as many batches, which saves a small collective an iteration.
        throw_on_early_termination: raise on all ranks when the first is done.
        kwargs: for the participants' ``join_hook``.

    Raises:
        ValueError: no participants, or some of different groups.
        RuntimeError: a rank was done, with ``throw_on_early_termination``.

    Example::

        >>> from oneflow.distributed.algorithms.join import Join
        >>> def rank():
        ...     model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
        ...     here = oneflow.distributed.get_rank()
        ...     with Join([model]):
        ...         for _ in range(1 + here):
        ...             model.zero_grad()
        ...             model(oneflow.ones(1, 1)).sum().backward()
        ...     return model.module.bias.grad.item()
        >>> oneflow.testing.run_ranks(2, rank)[1]  # Of the second batch, which one rank of two has.
        0.5
    """

    def __init__(
        self,
        joinables: list[Any],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = joinables
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._enable, self._throws = enable, throw_on_early_termination
        groups = [joinable.join_process_group for joinable in joinables]
        ranks = {tuple(distributed.get_process_group_ranks(group)) for group in groups}
        if len(ranks) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._group, self._device = groups[0], joinables[0].join_device

    def __enter__(self) -> None:
        for i, joinable in enumerate(self._joinables):
            joinable._join_config = Config(self._enable, self._throws, i == 0)

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        try:
            if self._enable and kind is None:
                self._take_part()
        finally:
            for joinable in self._joinables:
                joinable._join_config = None

    def _take_part(self) -> None:
        n_iterations, is_last = 0, True
        warned = False
        while _count(self._group, self._device, 0) > 0:
            if self._throws:
                _count(self._group, self._device, 1)
                raise RuntimeError(f"Rank {distributed.get_rank(self._group)} exhausted all inputs.")
            is_last = False
            n_iterations += 1
            if n_iterations > 1000 and not warned:
                warnings.warn(
                    f"Detected uneven input skew of greater than {n_iterations - 1}: rank "
                    f"{distributed.get_rank(self._group)} has at least as many batches less than others",
                    stacklevel=3,
                )
                warned = True
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(is_last)

    @staticmethod
    def notify_join_context(joinable: Any) -> Any:
        """Tell the ranks that are done that this one has a batch. The first participant alone does it.

        Returns:
            a completed work, or None outside of an enabled :class:`Join`.
        """
        config = joinable._join_config
        if config is None or not config.enable or not config.is_first_joinable:
            return None
        group, device = joinable.join_process_group, joinable.join_device
        active = _count(group, device, 1)
        if config.throw_on_early_termination and active < distributed.get_world_size(group):
            # Those that are done raise after one more exchange.
            _count(group, device, 0)
            raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return _Done(active)


class _Done:
    def __init__(self, n_active: int) -> None:
        self.n_active = n_active

    def wait(self, timeout: Any = None) -> bool:
        return True


def _count(group: Any, device: Any, own: int) -> int:
    """The number of ranks that have a batch."""
    number: Tensor = oneflow.full((1,), own, dtype=oneflow.int64, device=device)
    distributed.all_reduce(number, group=group)
    return int(number.item())
