"""The base of learning-rate schedules, and what they share. Public under ``optim.lr_scheduler``."""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from oneflow import Tensor
from oneflow.optim.optimizer import Group, Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. "
    "Please use `scheduler.step()` to step the scheduler."
)
_ORDER = "See https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def in_step(get_lr: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    """Marks a ``get_lr`` that computes the next rates from the last: a call from outside ``step`` is warned of."""

    @functools.wraps(get_lr)
    def wrapper(self: LRScheduler) -> list[Any]:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=2,
            )
        return get_lr(self)

    return wrapper


class LRScheduler:
    """Base class of schedules.

    Args:
        optimizer: whose groups get the learning rate.
        last_epoch: the number of steps taken before; -1 starts from the beginning.

    Subclasses define ``get_lr``, which returns the learning rate of every group.

    Example::

        >>> issubclass(oneflow.optim.lr_scheduler.StepLR, oneflow.optim.lr_scheduler.LRScheduler)
        True
    """

    _is_initial = False
    _get_lr_called_within_step = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", *copies([group["lr"]]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    f"last_epoch >= 0.\nThis typically happens when:\n1. You're trying to resume training from a "
                    f"checkpoint but haven't properly loaded the optimizer state\n2. You're using last_epoch >= 0 "
                    f"for a fresh training run (not recommended)"
                )
        self.base_lrs = copies(group["initial_lr"] for group in optimizer.param_groups)
        self.last_epoch = last_epoch
        optimizer._step_at_schedule = _function(optimizer.step)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        # A schedule created in the middle of a training finds the rate of that step in place.
        self._is_initial = True
        self.step()
        self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
        self.__dict__.update(state_dict)

    @property
    def last_step(self) -> int:
        """OneFlow's name of ``last_epoch``."""
        return self.last_epoch

    @last_step.setter
    def last_step(self, step: int) -> None:
        self.last_epoch = step

    def get_last_lr(self) -> list[Any]:
        """Return the learning rates set last."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """Return the learning rate of every group for ``self.last_epoch``."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr")

    def _now(self) -> list[Any]:
        return copies(group["lr"] for group in self.optimizer.param_groups)

    def step(self, epoch: int | None = None) -> None:
        """Go one step on, or to ``epoch``."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._apply(self._at(epoch))

    def _check_order(self) -> None:
        # A wrapper of an optimizer need not define either.
        before = getattr(self.optimizer, "_step_at_schedule", None)
        if before is not None and before is not _function(self.optimizer.step):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                f"Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. {_ORDER}",
                UserWarning,
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", True):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. The first value of the schedule "
                f"is skipped; call `optimizer.step()` first. {_ORDER}",
                UserWarning,
                stacklevel=3,
            )

    def _at(self, epoch: int | None) -> list[Any]:
        """The rates of the next step, or of step ``epoch``."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed_form = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        values: list[Any] = self._next() if closed_form is None else closed_form()
        return values

    def _next(self) -> list[Any]:
        """``get_lr`` as ``step`` calls it."""
        self._get_lr_called_within_step = True
        try:
            return self.get_lr()
        finally:
            self._get_lr_called_within_step = False

    def _restart(self) -> None:
        """Go to the first step: called when another schedule ends."""
        if type(self).step is not LRScheduler.step:
            return self.step(0)
        self._apply(self._at(0))

    def _apply(self, values: Iterable[Any]) -> None:
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            set_lr(group, lr)
        self._last_lr = self._now()


class FunctionSchedule(LRScheduler):
    """Base of schedules by a function of the step, or one for each group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        n_groups = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * n_groups
        if len(self.lr_lambdas) != n_groups:
            raise ValueError(f"Expected {n_groups} lr_lambdas, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions; objects that are called are kept by their attributes."""
        functions = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
        kept = [None if isinstance(f, functions) else dict(f.__dict__) for f in self.lr_lambdas]
        state = super().state_dict()
        state.pop("lr_lambdas")
        # Last, as in PyTorch.
        return {**state, "lr_lambdas": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
        state = dict(state_dict)
        for f, kept in zip(self.lr_lambdas, state.pop("lr_lambdas"), strict=True):
            if kept is not None:
                f.__dict__.update(kept)
        super().load_state_dict(state)


class ScheduleOfSchedules(LRScheduler):
    """Base of schedules composed of others, whose states it saves with its own."""

    _schedulers: list[Any]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all schedules."""
        state = super().state_dict()
        state.pop("_schedulers")
        # Last, as in PyTorch.
        return {**state, "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
        state = dict(state_dict)
        for scheduler, inner in zip(self._schedulers, state.pop("_schedulers"), strict=True):
            scheduler.load_state_dict(inner)
        super().load_state_dict(state)


def _function(method: Any) -> Any:
    return getattr(method, "__func__", method)


def set_lr(group: Group, lr: Any) -> None:
    """Set a group's learning rate; a tensor keeps its identity."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(lr)
    else:
        group["lr"] = lr


def set_momentum(group: Group, momentum: float) -> None:
    """Set a group's momentum, or its first beta."""
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


def per_group(name: str, value: Any, n_groups: int) -> list[Any]:
    """One value for each group, from a list of them or one for all; of tensors copies, which the caller may write."""
    if not isinstance(value, (list, tuple)):
        return copies([value] * n_groups)
    if len(value) != n_groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {n_groups}."
        )
    return copies(value)


def copies(rates: Iterable[Any]) -> list[Any]:
    """Numbers, and copies of tensors: a group's tensor is written in place."""
    return [rate.clone() if isinstance(rate, Tensor) else rate for rate in rates]
