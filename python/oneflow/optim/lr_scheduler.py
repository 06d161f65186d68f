"""Learning-rate schedules. Each sets ``lr`` of every group of its optimizer, once per ``step``.

Most are written as the change from one step to the next, so that several of them may act on one optimizer. The schedule
of a measurement, those that also change momentum and those composed of others are in private files next to this one.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from oneflow.optim._composed_schedules import ChainedScheduler, SequentialLR, WarmupLR
from oneflow.optim._cyclic_schedules import CyclicLR, OneCycleLR
from oneflow.optim._plateau import ReduceLROnPlateau
from oneflow.optim._schedule import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING
from oneflow.optim._schedule import FunctionSchedule, LRScheduler, in_step
from oneflow.optim.optimizer import Optimizer

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CosineDecayLR",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
    "WarmUpLR",
    "WarmupLR",
]

# The name of older PyTorch, and OneFlow's second spelling.
_LRScheduler: type[LRScheduler] = LRScheduler
WarmUpLR = WarmupLR


class LambdaLR(FunctionSchedule):
    """Initial learning rate times ``lr_lambda(step)``.

    Args:
        optimizer: whose groups get the learning rate.
        lr_lambda: a function of the step, or one per group.
        last_epoch: as :class:`LRScheduler`.

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> scheduler = oneflow.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda step: 1 / (step + 1))
        >>> rates = []
        >>> for _ in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [1.0, 0.5, 0.3333, 0.25]
    """

    @in_step
    def get_lr(self) -> list[Any]:
        return [base * fn(self.last_epoch) for fn, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(FunctionSchedule):
    """Multiply the learning rate by a function of the step.

    Args:
        optimizer: whose groups get the learning rate.
        lr_lambda: a function of the step, or one for each group.
        last_epoch: as :class:`LRScheduler`.

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> scheduler = oneflow.optim.lr_scheduler.MultiplicativeLR(optimizer, lr_lambda=lambda step: 0.5)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [1.0, 0.5, 0.25, 0.125]
    """

    @in_step
    def get_lr(self) -> list[Any]:
        """The rates of the last step times the functions' values."""
        if self._is_initial:
            return self._now()
        return [lr * f(self.last_epoch) for lr, f in zip(self._now(), self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """Multiply by ``gamma`` every ``step_size`` steps.

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> scheduler = oneflow.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [1.0, 1.0, 0.5, 0.5]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    @in_step
    def get_lr(self) -> list[Any]:
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._now()
        return [lr * self.gamma for lr in self._now()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiply by ``gamma`` at every step listed in ``milestones``.

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> scheduler = oneflow.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [1.0, 0.5, 0.5, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    @in_step
    def get_lr(self) -> list[Any]:
        factor = self.gamma ** self.milestones[self.last_epoch]
        return [lr * factor for lr in self._now()] if self.last_epoch in self.milestones else self._now()

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect.bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Initial learning rate times ``factor`` for ``total_iters`` steps, then the initial one.

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> scheduler = oneflow.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [0.5, 0.5, 1.0, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1.0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    @in_step
    def get_lr(self) -> list[Any]:
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._now()]
        if self.last_epoch != self.total_iters:
            return self._now()
        return [lr * (1.0 / self.factor) for lr in self._now()]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self.factor if self.last_epoch < self.total_iters else 1.0
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Initial learning rate times a factor that changes linearly from ``start_factor`` to ``end_factor``.

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> scheduler = oneflow.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1.0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1.0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, step: int) -> float:
        share = min(step, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * share

    @in_step
    def get_lr(self) -> list[Any]:
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._now()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._now()
        # The ratio of two factors, in the order of operations that gives PyTorch's bits.
        slope = self.end_factor - self.start_factor
        change = 1.0 + slope / (self.total_iters * self.start_factor + (self.last_epoch - 1) * slope)
        return [lr * change for lr in self._now()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self._factor(self.last_epoch) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiply by ``gamma`` every step.

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> scheduler = oneflow.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [1.0, 0.5, 0.25, 0.125]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    @in_step
    def get_lr(self) -> list[Any]:
        return self._now() if self._is_initial else [lr * self.gamma for lr in self._now()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Fall to zero in ``total_iters`` steps as ``(1 - step / total_iters) ** power``.

    With ``decay_batch``, ``end_learning_rate`` or ``cycle`` it is OneFlow's: fall to ``end_learning_rate`` in
    ``decay_batch`` steps, and with ``cycle`` stretch the fall again and again instead of staying there. OneFlow's five
    positions work too: optimizer, steps, end_learning_rate, power, cycle.

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> scheduler = oneflow.optim.lr_scheduler.PolynomialLR(optimizer, 4, 0.1)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [1.0, 0.9716, 0.933, 0.8706]
    """

    # Only a schedule with OneFlow's arguments has them as attributes, so that the state of others has PyTorch's keys.
    decay_batch: int | None = None
    end_learning_rate: float = 0.0001
    cycle: bool = False

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
        _cycle: bool | None = None,
        *,
        decay_batch: int | None = None,
        end_learning_rate: float | None = None,
        cycle: bool = False,
        last_step: int | None = None,
    ) -> None:
        if _cycle is not None:
            # Five positions are OneFlow's: steps, end_learning_rate, power, cycle.
            decay_batch, end_learning_rate, power, cycle = total_iters, power, last_epoch, _cycle
            last_epoch = -1
        elif decay_batch is None and (cycle or end_learning_rate is not None):
            decay_batch = total_iters
        self.total_iters = total_iters
        self.power = power
        if decay_batch is not None:
            self.decay_batch = decay_batch
            self.end_learning_rate = 0.0001 if end_learning_rate is None else end_learning_rate
            self.cycle = cycle
        super().__init__(optimizer, last_epoch if last_step is None else last_step)

    @in_step
    def get_lr(self) -> list[Any]:
        if self.decay_batch is not None:
            return self._get_closed_form_lr()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._now()
        left = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return [lr * (left / before) ** self.power for lr in self._now()]

    def _get_closed_form_lr(self) -> list[Any]:
        if self.decay_batch is None:
            left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
            return [base * left**self.power for base in self.base_lrs]
        n = self.decay_batch
        if self.cycle:
            n *= max(1, math.ceil(self.last_epoch / n))
        # With cycles OneFlow's first step has the rate of the second.
        step = max(self.last_epoch, 1) if self.cycle else self.last_epoch
        left = 1.0 - min(step, n) / n
        end = self.end_learning_rate
        return [(base - end) * left**self.power + end for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial learning rate to ``eta_min`` in ``T_max`` steps, then back, and so on.

    (Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2016; without restarts.)

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> scheduler = oneflow.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [1.0, 0.8536, 0.5, 0.1464]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    @in_step
    def get_lr(self) -> list[Any]:
        step, period, low = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return self._now()
        if self._step_count == 1 and step > 0:
            return self._get_closed_form_lr()
        if (step - 1 - period) % (2 * period) == 0:
            # The cosine is at its lowest: its ratio to the next value is not defined there.
            rise = (1 - math.cos(math.pi / period)) / 2
            return [
                group["lr"] + (base - low) * rise
                for base, group in zip(self.base_lrs, self.optimizer.param_groups, strict=True)
            ]
        change = (1 + math.cos(math.pi * step / period)) / (1 + math.cos(math.pi * (step - 1) / period))
        return [change * (lr - low) + low for lr in self._now()]

    def _get_closed_form_lr(self) -> list[Any]:
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the initial learning rate to ``eta_min``, restarted after T_0, T_0 * T_mult, ... steps.

    (Loshchilov and Hutter, "SGDR", 2016.)

    Args:
        optimizer: whose groups get the learning rate.
        T_0: steps of the first period.
        T_mult: how many times longer each period is than the one before it.
        eta_min: the lowest rate.
        last_epoch: as :class:`LRScheduler`; OneFlow's ``last_step`` is the same.
        decay_rate: a factor of the rate at which each further period begins (OneFlow).
        restart_limit: how many periods there are; after them the rate is ``eta_min``. 0 means no limit (OneFlow).

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> scheduler = oneflow.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [1.0, 0.5, 1.0, 0.5]
    """

    # Only a schedule with OneFlow's arguments has them as attributes, so that the state of others has PyTorch's keys.
    decay_rate: float = 1.0
    restart_limit: int = 0
    _n_restarts: int = 0

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
        *,
        decay_rate: float = 1.0,
        restart_limit: int = 0,
        last_step: int | None = None,
    ) -> None:
        last_epoch = last_epoch if last_step is None else last_step
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        if decay_rate != 1.0 or restart_limit:
            self.decay_rate = decay_rate
            self.restart_limit = restart_limit
            self._n_restarts = 0
        super().__init__(optimizer, last_epoch)

    @in_step
    def get_lr(self) -> list[Any]:
        if self.restart_limit and self._n_restarts >= self.restart_limit:
            return [self.eta_min for _ in self.base_lrs]
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        decay = self.decay_rate**self._n_restarts
        return [self.eta_min + (base * decay - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go one step on, or to ``epoch``, which may be fractional."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
                self._restarted(self._n_restarts + 1)
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._locate(epoch)
        self.last_epoch = math.floor(epoch)
        self._apply(self._next())

    def _restarted(self, n: int) -> None:
        if "_n_restarts" in self.__dict__:
            self._n_restarts = n

    def _locate(self, epoch: float) -> None:
        """Set the length of the period that ``epoch`` falls into, and the place within it."""
        if epoch < self.T_0:
            n, self.T_i, self.T_cur = 0, self.T_0, epoch
        elif self.T_mult == 1:
            n, self.T_i, self.T_cur = int(epoch // self.T_0), self.T_0, epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            start = self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i, self.T_cur = self.T_0 * self.T_mult**n, epoch - start
        self._restarted(n)


class CosineDecayLR(LRScheduler):
    """OneFlow's cosine: from the base rate to ``alpha`` times it in ``decay_steps`` steps, then constant.

    Args:
        optimizer: whose groups get the learning rate.
        decay_steps: steps of the fall.
        alpha: what is left, as a share of the base rate.
        last_step: as ``last_epoch`` of :class:`LRScheduler`.

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> scheduler = oneflow.optim.lr_scheduler.CosineDecayLR(optimizer, decay_steps=4)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [1.0, 0.8536, 0.5, 0.1464]
    """

    def __init__(self, optimizer: Optimizer, decay_steps: int, alpha: float = 0.0, last_step: int = -1) -> None:
        if decay_steps <= 0:
            raise ValueError(f"decay_steps must greater than zero, but got {decay_steps}")
        self.decay_steps = decay_steps
        self.alpha = alpha
        super().__init__(optimizer, last_step)

    @in_step
    def get_lr(self) -> list[Any]:
        """The rate at this step."""
        done = min(self.last_epoch, self.decay_steps) / self.decay_steps
        share = 0.5 * (1 + math.cos(math.pi * done)) * (1 - self.alpha) + self.alpha
        return [base * share for base in self.base_lrs]
