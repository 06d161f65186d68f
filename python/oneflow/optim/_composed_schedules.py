"""Schedules composed of others. Public under ``optim.lr_scheduler``."""

from __future__ import annotations

import bisect
import copy
import warnings
from collections.abc import Sequence
from typing import Any

from oneflow.optim._plateau import ReduceLROnPlateau
from oneflow.optim._schedule import LRScheduler, ScheduleOfSchedules, in_step, set_lr
from oneflow.optim.optimizer import Optimizer


class ChainedScheduler(ScheduleOfSchedules):
    """Several schedules that all act on one optimizer at every step.

    Args:
        schedulers: in the order they act.
        optimizer: theirs, by default the first one's.

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> parts = [oneflow.optim.lr_scheduler.ExponentialLR(optimizer, 0.5),
        ...     oneflow.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]
        >>> scheduler = oneflow.optim.lr_scheduler.ChainedScheduler(parts)
        >>> optimizer.step(); scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def __init__(self, schedulers: Sequence[Any], optimizer: Optimizer | None = None) -> None:
        name = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(f"{name} expects at least one scheduler to be chained, but got no scheduler.")
        optimizer = optimizer or schedulers[0].optimizer
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                    f"specified when calling `step`, but got one at index {i} in the given schedulers sequence."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(f"{name} expects all schedulers to belong to the same optimizer: not so at index {i}")
        self._schedulers = list(schedulers)
        self.optimizer = optimizer
        self._last_lr = self._now()

    @property
    def last_epoch(self) -> int:  # type: ignore[override]
        """That of the last schedule; the state has that schedule's alone, as in PyTorch."""
        return getattr(self._schedulers[-1], "last_epoch", 0)

    def step(self, epoch: int | None = None) -> None:
        """Go one step on with all of them."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._now()


class SequentialLR(ScheduleOfSchedules):
    """One schedule after another.

    Args:
        optimizer: whose groups get the learning rate; all ``schedulers`` act on it.
        schedulers: in order.
        milestones: the steps at which the next one takes over, one fewer than schedulers.
        last_epoch: as :class:`LRScheduler`.

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> parts = [oneflow.optim.lr_scheduler.ConstantLR(optimizer, 0.5),
        ...     oneflow.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)]
        >>> scheduler = oneflow.optim.lr_scheduler.SequentialLR(optimizer, parts, milestones=[1])
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[Any], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        if not schedulers:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        for i, scheduler in enumerate(schedulers):
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{type(self).__name__} does not support `ReduceLROnPlateau` scheduler as it requires additional "
                    "kwargs to be specified when calling `step`, but got one at index "
                    f"{i} in the given schedulers sequence."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(f"{type(self).__name__}: scheduler at index {i} acts on another optimizer")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones "
                f"to be equal to {len(milestones)}"
            )
        self.optimizer = optimizer
        self._schedulers = list(schedulers)
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        # Making the schedules applied each one's first value: take that back and start the first one alone.
        for group in optimizer.param_groups:
            set_lr(group, group["initial_lr"])
        _undo(self._schedulers)
        self._schedulers[0]._initial_step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Go one step on."""
        self.last_epoch += 1
        i = bisect.bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._restart()
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _undo(schedulers: Sequence[Any]) -> None:
    """Take back the first step of schedules, and of those inside them."""
    for scheduler in schedulers:
        if isinstance(scheduler, ScheduleOfSchedules):
            _undo(scheduler._schedulers)
        if not isinstance(scheduler, ChainedScheduler):
            scheduler.last_epoch -= 1


class WarmupLR(LRScheduler):
    """OneFlow's warm-up before another schedule.

    Args:
        scheduler_or_optimizer: the schedule that follows, or an optimizer whose rate then stays.
        warmup_factor: the first rate, as a share of the base rate.
        warmup_iters: steps of the warm-up.
        warmup_method: "linear" or "constant".
        warmup_prefix: begin the schedule after the warm-up, instead of letting it run along.
        last_step: as ``last_epoch`` of :class:`LRScheduler`.

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> scheduler = oneflow.optim.lr_scheduler.WarmupLR(optimizer, warmup_factor=0.5, warmup_iters=2)
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(
        self,
        scheduler_or_optimizer: Any,
        warmup_factor: float = 1.0 / 3,
        warmup_iters: int = 5,
        warmup_method: str = "linear",
        warmup_prefix: bool = False,
        last_step: int = -1,
    ) -> None:
        if warmup_method not in ("linear", "constant"):
            raise ValueError(f"'warmup_method' must be in ['linear', 'constant'], but got {warmup_method}")
        if warmup_iters < 0:
            raise ValueError("'warmup_iters' must be non-negative")
        inner = scheduler_or_optimizer if isinstance(scheduler_or_optimizer, LRScheduler) else None
        optimizer = scheduler_or_optimizer if inner is None else inner.optimizer
        self._inner = inner
        self.warmup_factor = warmup_factor
        self.warmup_iters = warmup_iters
        self.warmup_method = warmup_method
        self.warmup_prefix = warmup_prefix
        self._inner_lrs: list[Any] = []
        if isinstance(optimizer, Optimizer):
            self._inner_lrs = [group["lr"] for group in optimizer.param_groups]
            self._targets = self._reached(optimizer)
        super().__init__(optimizer, last_step)

    def _reached(self, optimizer: Optimizer) -> list[Any]:
        """The rates at which the warm-up meets the schedule."""
        if self._inner is None or self.warmup_prefix:
            return [group.get("initial_lr", group["lr"]) for group in optimizer.param_groups]
        before = copy.deepcopy(self._inner.state_dict())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(self.warmup_iters):
                self._inner.step()
        reached = [group["lr"] for group in optimizer.param_groups]
        self._inner.load_state_dict(before)
        for group, lr in zip(optimizer.param_groups, self._inner_lrs, strict=True):
            set_lr(group, lr)
        return reached

    @in_step
    def get_lr(self) -> list[Any]:
        """The warm-up's rate, then the schedule's."""
        step = self.last_epoch
        runs = self._inner is not None and (step > self.warmup_iters if self.warmup_prefix else step > 0)
        if runs:
            for group, lr in zip(self.optimizer.param_groups, self._inner_lrs, strict=True):
                set_lr(group, lr)
            self._inner.step()  # type: ignore[union-attr]
            self._inner_lrs = self._now()
        if step >= self.warmup_iters:
            return self._inner_lrs if self._inner is not None else self.base_lrs
        if self.warmup_method == "constant":
            return [base * self.warmup_factor for base in self.base_lrs]
        done = step / self.warmup_iters
        ends = zip(self.base_lrs, self._targets, strict=True)
        return [base * self.warmup_factor + (end - base * self.warmup_factor) * done for base, end in ends]

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer, with the schedule's state."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "_inner")}
        return {**state, "_inner": None if self._inner is None else self._inner.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
        state = dict(state_dict)
        inner = state.pop("_inner")
        if self._inner is not None:
            self._inner.load_state_dict(inner)
        self.__dict__.update(state)
