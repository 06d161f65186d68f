"""NAdam, RAdam and Adamax."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.optim._options import options, step_function
from oneflow.optim._rule import RuleOptimizer, State
from oneflow.optim.optimizer import Group


class _Moments(RuleOptimizer):
    """The base of NAdam and RAdam: Adam's two moments and its two kinds of weight decay."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("maximize", False)
            group.setdefault("decoupled_weight_decay", False)

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def _options(self, group: Group) -> list[float]:
        beta1, beta2 = group["betas"]
        return [float(beta1), float(beta2), group["eps"], group["weight_decay"], float(group["decoupled_weight_decay"])]


class NAdam(_Moments):
    """Adam with Nesterov's momentum. (Dozat, 2016.)

    Args:
        params: parameters or groups.
        lr: learning rate.
        betas: decay of the first and of the second moment.
        eps: added to the root of the second moment.
        weight_decay: added to the gradient, or with ``decoupled_weight_decay`` shrinks the parameter.
        momentum_decay: how fast the momentum approaches ``betas[0]``.
        maximize: go uphill.
        foreach, capturable: accepted for compatibility; there is one path.
        differentiable: record the step, so that gradients flow through it.

    Example::

        >>> optimizer = oneflow.optim.NAdam(model.parameters(), lr=2e-3)
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = options(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
        )
        super().__init__(params, defaults)

    def _shared(self, param: Tensor, group: Group) -> State:
        return {**super()._shared(param, group), "mu_product": oneflow.ones((), device=param.device)}

    def _rule(self, group: Group) -> tuple[str, list[float]]:
        return "nadam", [*self._options(group), group["momentum_decay"]]

    def _numbers(self, group: Group, lr: Tensor, state: State) -> tuple[Tensor | None, ...]:
        decay = oneflow.pow(0.96, state["step"].double() * group["momentum_decay"])
        live = self._live_tensor(group)
        momentum = (1.0 - 0.5 * decay) * (group["betas"][0] if live is None else live[0])
        if (found_inf := self.__dict__.get("found_inf")) is not None:
            momentum = oneflow.where(found_inf > 0, oneflow.ones_like(momentum), momentum)
        return (lr, state["step"], state["mu_product"].mul_(momentum.float()), None)


class RAdam(_Moments):
    """Adam whose adaptive rate waits until its variance is tractable. (Liu et al., 2019.)

    Args:
        params: parameters or groups.
        lr: learning rate.
        betas: decay of the first and of the second moment.
        eps: added to the root of the second moment.
        weight_decay: added to the gradient, or with ``decoupled_weight_decay`` shrinks the parameter.
        maximize: go uphill.
        foreach, capturable: accepted for compatibility; there is one path.
        differentiable: record the step, so that gradients flow through it.

    Example::

        >>> optimizer = oneflow.optim.RAdam(model.parameters(), lr=1e-3)
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = options(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            maximize=maximize,
            decoupled_weight_decay=decoupled_weight_decay,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
        )
        super().__init__(params, defaults)

    def _rule(self, group: Group) -> tuple[str, list[float]]:
        return "radam", self._options(group)


class Adamax(RuleOptimizer):
    """Adam by the largest gradient instead of the second moment. (Kingma and Ba, 2014.)

    Args:
        params: parameters or groups.
        lr: learning rate.
        betas: decay of the moment and of the largest gradient.
        eps: added to the gradient's size.
        weight_decay: added to the gradient as ``weight_decay * parameter``.
        maximize: go uphill.
        foreach, capturable: accepted for compatibility; there is one path.
        differentiable: record the step, so that gradients flow through it.

    Example::

        >>> optimizer = oneflow.optim.Adamax(model.parameters(), lr=2e-3)
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = options(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            capturable=capturable,
        )
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("maximize", False)

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_inf")

    def _rule(self, group: Group) -> tuple[str, list[float]]:
        beta1, beta2 = group["betas"]
        return "adamax", [float(beta1), float(beta2), group["eps"], group["weight_decay"]]


def __getattr__(name: str) -> Any:
    return step_function(__name__, ("adamax", "nadam", "radam"), name)
