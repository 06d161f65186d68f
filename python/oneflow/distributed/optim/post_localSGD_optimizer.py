"""An optimizer that averages parameters every few steps."""

from __future__ import annotations

import warnings
from typing import Any

from oneflow.optim import Optimizer

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Another optimizer, after each step of which an averager may average the parameters over ranks.

    Args:
        optim: the optimizer that updates.
        averager: a :class:`~oneflow.distributed.algorithms.model_averaging.averagers.PeriodicModelAverager`.

    Example::

        >>> from oneflow.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
        >>> from oneflow.distributed.optim import PostLocalSGDOptimizer
        >>> inner = oneflow.optim.SGD([nn.Parameter(oneflow.ones(1))], lr=0.1)
        >>> optimizer = PostLocalSGDOptimizer(inner, PeriodicModelAverager(period=4))
        >>> optimizer.step()
    """

    def __init__(self, optim: Optimizer, averager: Any) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups
        self.defaults = optim.defaults
        self._reset_hooks()

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The other optimizer's."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """The other optimizer's, and ``"step"``, the averager's count."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned; without a ``"step"`` the averager counts from zero, with a
        warning."""
        self.optim.load_state_dict({key: value for key, value in state_dict.items() if key != "step"})
        self.param_groups = self.optim.param_groups
        if "step" not in state_dict:
            warnings.warn(
                "Loaded state dict does not contain a step counter for an averager. Setting step counter to 0.",
                stacklevel=2,
            )
        self.averager.step = state_dict.get("step", 0)

    def step(self, closure: Any = None) -> Any:
        """Update, then average where it is due."""
        loss = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(params=self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset all gradients."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group to the other optimizer."""
        self.optim.add_param_group(param_group)
