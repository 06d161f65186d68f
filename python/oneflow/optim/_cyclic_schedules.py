"""Schedules that rise and fall, the momentum against the learning rate. Public under ``optim.lr_scheduler``."""

from __future__ import annotations

import math
import types
from collections.abc import Sequence
from typing import Any

from oneflow.optim._schedule import LRScheduler, in_step, per_group, set_lr, set_momentum
from oneflow.optim.optimizer import Optimizer


class CyclicLR(LRScheduler):
    """Back and forth between two learning rates. (Smith, 2017.)

    Args:
        optimizer: whose groups get the learning rate.
        base_lr, max_lr: the bounds, one for all groups or one each.
        step_size_up, step_size_down: steps of the rise and of the fall.
        mode: "triangular", "triangular2" (the height halves each cycle) or "exp_range" (times ``gamma ** step``).
        gamma: of "exp_range".
        scale_fn: a function that scales the height instead, of the cycle or of the step as ``scale_mode`` selects.
        cycle_momentum: let momentum (or the first beta) move in the opposite direction, from ``max_momentum``.
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
        base_lrs = per_group("base_lr", base_lr, n)
        self.max_lrs = per_group("max_lr", max_lr, n)
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
            self.base_momentums = per_group("base_momentum", base_momentum, n)
            self.max_momentums = per_group("max_momentum", max_momentum, n)
        if last_epoch == -1:
            for i, group in enumerate(optimizer.param_groups):
                set_lr(group, base_lrs[i])
                if cycle_momentum:
                    set_momentum(group, self.max_momentums[i])
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

    @in_step
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
                set_momentum(group, high - (high - low) * share)
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


class OneCycleLR(LRScheduler):
    """Rise to ``max_lr`` and fall far below the start, momentum the other way round. (Smith and Topin, 2017.)

    Args:
        optimizer: whose groups get learning rate and momentum.
        max_lr: the highest learning rate, or one per group.
        total_steps: length; else ``epochs * steps_per_epoch``.
        pct_start: share of the length that rises.
        anneal_strategy: "cos" or "linear".
        cycle_momentum, base_momentum, max_momentum: momentum (or beta1) falls while the learning rate rises.
        div_factor: the start is ``max_lr / div_factor``.
        final_div_factor: the end is the start divided by this.
        three_phase: fall to the start symmetrically first.

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> scheduler = oneflow.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=4,
        ...     cycle_momentum=False)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates.append(round(scheduler.get_last_lr()[0], 4))
        ...     optimizer.step()
        ...     scheduler.step()
        >>> rates
        [0.04, 0.8117, 0.2831, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self.total_steps = total_steps
        rise = float(pct_start * total_steps) - 1
        end = total_steps - 1
        phases = (
            [
                (rise, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                (2 * rise, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (end, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
            if three_phase
            else [
                (rise, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                (end, "max_lr", "min_lr", "base_momentum", "max_momentum"),
            ]
        )
        # In the form of PyTorch's state dictionaries, which hold it.
        self._schedule_phases: list[dict[str, Any]] = [dict(zip(_PHASE, phase, strict=True)) for phase in phases]
        self._anneal_func_type = anneal_strategy
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = "betas" in optimizer.defaults
        if last_epoch == -1:
            self._mark(optimizer, max_lr, base_momentum, max_momentum, div_factor, final_div_factor)
        super().__init__(optimizer, last_epoch)

    def _mark(
        self, optimizer: Optimizer, max_lr: Any, base: Any, top: Any, div_factor: float, final_div_factor: float
    ) -> None:
        groups = optimizer.param_groups
        for group, high in zip(groups, per_group("max_lr", max_lr, len(groups)), strict=True):
            group["initial_lr"] = high / div_factor
            group["max_lr"] = high
            group["min_lr"] = group["initial_lr"] / final_div_factor
            set_lr(group, group["initial_lr"])
        if not self.cycle_momentum:
            return
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        lows = per_group("base_momentum", base, len(groups))
        tops = per_group("max_momentum", top, len(groups))
        for group, low, high in zip(groups, lows, tops, strict=True):
            group["base_momentum"], group["max_momentum"] = low, high
            set_momentum(group, high)

    def _between(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (1 + math.cos(math.pi * share))

    @in_step
    def get_lr(self) -> list[Any]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        values = []
        for group in self.optimizer.param_groups:
            begin = 0.0
            for i, phase in enumerate(self._schedule_phases):
                end, lr0, lr1, m0, m1 = (phase[key] for key in _PHASE)
                if step <= end or i == len(self._schedule_phases) - 1:
                    share = (step - begin) / (end - begin)
                    values.append(self._between(group[lr0], group[lr1], share))
                    if self.cycle_momentum:
                        set_momentum(group, self._between(group[m0], group[m1], share))
                    break
                begin = end
        return values


_PHASE = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
