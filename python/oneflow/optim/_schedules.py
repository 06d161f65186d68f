"""Schedules that chain, multiply or go back and forth, and OneFlow's own. Public under ``optim.lr_scheduler``."""

from __future__ import annotations

import copy
import math
import types
import warnings
from collections.abc import Sequence
from typing import Any

from oneflow.optim._plateau import ReduceLROnPlateau
from oneflow.optim.lr_scheduler import LRScheduler, _per_group, _set_lr, _set_momentum
from oneflow.optim.optimizer import Optimizer


class MultiplicativeLR(LRScheduler):
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

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        n = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * n
        if len(self.lr_lambdas) != n:
            raise ValueError(f"Expected {n} lr_lambdas, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates of the last step times the functions' values."""
        if self._is_initial:
            return self._now()
        return [lr * f(self.last_epoch) for lr, f in zip(self._now(), self.lr_lambdas, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions; objects that are called are kept by their attributes."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "lr_lambdas")}
        functions = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
        kept = [None if isinstance(f, functions) else f.__dict__.copy() for f in self.lr_lambdas]
        return {**state, "lr_lambdas": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
        state = dict(state_dict)
        for f, kept in zip(self.lr_lambdas, state.pop("lr_lambdas"), strict=True):
            if kept is not None:
                f.__dict__.update(kept)
        self.__dict__.update(state)


class ChainedScheduler(LRScheduler):
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

    def step(self, epoch: int | None = None) -> None:
        """Go one step on with all of them."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._now()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all schedules."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "_schedulers")}
        return {**state, "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
        state = dict(state_dict)
        for scheduler, inner in zip(self._schedulers, state.pop("_schedulers"), strict=True):
            scheduler.load_state_dict(inner)
        self.__dict__.update(state)


class CyclicLR(LRScheduler):
    """Back and forth between two learning rates. (Smith, 2017.)

    Args:
        optimizer: whose groups get the learning rate.
        base_lr, max_lr: the bounds, one for all groups or one each.
        step_size_up, step_size_down: steps of the rise and of the fall.
        mode: "triangular", "triangular2" (the height halves each cycle) or "exp_range" (times ``gamma ** step``).
        gamma: of "exp_range".
        scale_fn: the height's factor instead, of the cycle or of the step as ``scale_mode`` says.
        cycle_momentum: let momentum (or the first beta) go the other way, from ``max_momentum``.
        last_epoch: as :class:`LRScheduler`.

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> scheduler = oneflow.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.1, max_lr=0.5, step_size_up=2,
        ...     cycle_momentum=False)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [0.1, 0.3, 0.5, 0.3]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Any = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        n = len(optimizer.param_groups)
        base_lrs = _per_group("base_lr", base_lr, n)
        self.max_lrs = _per_group("max_lr", max_lr, n)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
                raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
            self.use_beta1 = "betas" in optimizer.defaults
            self.base_momentums = _per_group("base_momentum", base_momentum, n)
            self.max_momentums = _per_group("max_momentum", max_momentum, n)
        if last_epoch == -1:
            for i, group in enumerate(optimizer.param_groups):
                _set_lr(group, base_lrs[i])
                if cycle_momentum:
                    _set_momentum(group, self.max_momentums[i])
                    group["max_momentum"], group["base_momentum"] = self.max_momentums[i], self.base_momentums[i]
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of cycle or step ``x``, as a share of the first one's."""
        if self._scale_fn_custom is not None:
            value: float = self._scale_fn_custom(x)
            return value
        if self.mode == "triangular":
            return 1.0
        return 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Any]:
        """The point of the cycle; sets the momentum too."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        share = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        share *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            ):
                _set_momentum(group, high - (high - low) * share)
        bases = [group["initial_lr"] for group in self.optimizer.param_groups]
        bases = self.base_lrs if len(self.base_lrs) == len(bases) else bases
        return [low + (high - low) * share for low, high in zip(bases, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; a function as ``scale_fn`` is left out."""
        state = super().state_dict()
        custom = state.pop("_scale_fn_custom")
        kept = custom.__dict__.copy() if custom is not None and not isinstance(custom, types.FunctionType) else None
        return {**state, "_scale_fn_custom": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
        state = dict(state_dict)
        kept = state.pop("_scale_fn_custom")
        super().load_state_dict(state)
        if kept is not None:
            self._scale_fn_custom.__dict__.update(kept)


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

    def get_lr(self) -> list[Any]:
        """The rate at this step."""
        done = min(self.last_epoch, self.decay_steps) / self.decay_steps
        share = 0.5 * (1 + math.cos(math.pi * done)) * (1 - self.alpha) + self.alpha
        return [base * share for base in self.base_lrs]


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
            _set_lr(group, lr)
        return reached

    def get_lr(self) -> list[Any]:
        """The warm-up's rate, then the schedule's."""
        step = self.last_epoch
        runs = self._inner is not None and (step > self.warmup_iters if self.warmup_prefix else step > 0)
        if runs:
            for group, lr in zip(self.optimizer.param_groups, self._inner_lrs, strict=True):
                _set_lr(group, lr)
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
