"""The schedule that looks at a measurement instead of the step. Public under ``optim.lr_scheduler``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from oneflow.optim._schedule import LRScheduler, per_group, set_lr
from oneflow.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Multiply by ``factor`` when a metric has not improved for more than ``patience`` steps.

    Args:
        optimizer: whose groups get the learning rate.
        mode: "min" or "max": what improvement means.
        factor: below one.
        patience: steps without improvement that are still fine.
        threshold, threshold_mode: improvement counts from this much on, "rel" or "abs".
        cooldown: steps after a reduction during which nothing is counted.
        min_lr: lower bound, or one per group.
        eps: smaller changes are skipped.

    Example::

        >>> optimizer = oneflow.optim.SGD([oneflow.nn.Parameter(oneflow.ones(1))], lr=1.0)
        >>> scheduler = oneflow.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
        >>> for loss in (1.0, 2.0):
        ...     scheduler.step(loss)
        >>> optimizer.param_groups[0]["lr"]
        0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.optimizer = optimizer
        self.factor = factor
        # The bound of groups that are added later; None where each has its own.
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = per_group("min_lr", min_lr, len(optimizer.param_groups))
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = self._now()
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether the last reduction was so recent that nothing is counted."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Return whether ``a`` improves on ``best`` by more than the threshold."""
        sign = 1.0 if self.mode == "max" else -1.0
        if self.threshold_mode == "rel":
            bound = best * (1.0 + sign * self.threshold)
        else:
            bound = best + sign * self.threshold
        return a > bound if self.mode == "max" else a < bound

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take notice of one value of the metric."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._now()

    def _reduce(self) -> None:
        n_groups = len(self.optimizer.param_groups)
        if n_groups != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({n_groups}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param group "
                    "being added to the optimizer. Please append its bound to the `min_lrs` field."
                )
            self.min_lrs = per_group("min_lr", self.default_min_lr, n_groups)
        for group, low in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, low)
            if old - new > self.eps:
                set_lr(group, new)
