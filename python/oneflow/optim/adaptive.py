"""Adadelta, Adagrad, RMSprop, Rprop and ASGD."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base import conventions
from oneflow._base.global_layouts import replicate_like
from oneflow.optim._options import options, step_function
from oneflow.optim._rule import RuleOptimizer, State, zero_step
from oneflow.optim.optimizer import Group, like


class Adadelta(RuleOptimizer):
    """Steps in the units of the parameter. (Zeiler, 2012.)

    Args:
        params: parameters or groups.
        lr: factor of the step.
        rho: decay of both averages.
        eps: added under the roots.
        weight_decay: added to the gradient as ``weight_decay * parameter``.
        maximize: go uphill.
        foreach, capturable: accepted for compatibility; there is one path.
        differentiable: record the step, so that gradients flow through it.

    Example::

        >>> optimizer = oneflow.optim.Adadelta(model.parameters())
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
        contiguous_params: bool = False,
    ) -> None:
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        defaults = options(
            contiguous_params=contiguous_params,
            lr=lr,
            rho=rho,
            eps=eps,
            weight_decay=weight_decay,
            maximize=maximize,
            capturable=capturable,
            foreach=foreach,
            differentiable=differentiable,
        )
        super().__init__(params, defaults)

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("square_avg", "acc_delta")

    def _rule(self, group: Group) -> tuple[str, list[float]]:
        return "adadelta", [group["rho"], group["eps"], group["weight_decay"]]


class Adagrad(RuleOptimizer):
    """A rate per element by the sum of its squared gradients. (Duchi, Hazan and Singer, 2011.)

    Args:
        params: parameters or groups.
        lr: learning rate.
        lr_decay: the rate falls as ``lr / (1 + (step - 1) * lr_decay)``.
        weight_decay: added to the gradient as ``weight_decay * parameter``.
        initial_accumulator_value: where the sum starts.
        eps: added to the root.
        maximize: go uphill.
        foreach, fused: accepted for compatibility; there is one path.
        differentiable: record the step, so that gradients flow through it.

    Example::

        >>> optimizer = oneflow.optim.Adagrad(model.parameters(), lr=1e-2)
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        contiguous_params: bool = False,
    ) -> None:
        defaults = options(
            contiguous_params=contiguous_params,
            lr=lr,
            lr_decay=lr_decay,
            eps=eps,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            fused=fused,
        )
        super().__init__(params, defaults)
        # The sums are there before the first step, as in PyTorch.
        for group in self.param_groups:
            shared = None
            for param in group["params"]:
                shared = self._new_state(param, group, shared)

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("sum",)

    def _own(self, param: Tensor, group: Group) -> State:
        start = group["initial_accumulator_value"]
        return {"sum": like(param, complex(start, start) if param.is_complex() else start)}

    def _rule(self, group: Group) -> tuple[str, list[float]]:
        return "adagrad", [group["lr_decay"], group["eps"], group["weight_decay"]]

    def _dense(self, grad: Tensor, group: Group) -> Tensor:
        # A row without gradient adds nothing to its sum and does not move.
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        return grad.to_dense()

    def share_memory(self) -> None:
        """Move the sums to shared memory."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()


class RMSprop(RuleOptimizer):
    """A rate per element by the average of its squared gradients. (Hinton, 2012.)

    Under OneFlow's conventions (:class:`oneflow.conventions`) ``eps`` is added to the average within the root.

    Args:
        params: parameters or groups.
        lr: learning rate.
        alpha: decay of the averages.
        eps: added to the root.
        weight_decay: added to the gradient as ``weight_decay * parameter``.
        momentum: share of the last update that is kept.
        centered: divide by the gradient's deviation instead.
        maximize: go uphill.
        capturable, foreach: accepted for compatibility; there is one path.
        differentiable: record the step, so that gradients flow through it.

    Example::

        >>> optimizer = oneflow.optim.RMSprop(model.parameters(), lr=1e-2, momentum=0.9)
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        contiguous_params: bool = False,
    ) -> None:
        defaults = options(
            contiguous_params=contiguous_params,
            lr=lr,
            momentum=momentum,
            alpha=alpha,
            eps=eps,
            centered=centered,
            weight_decay=weight_decay,
            maximize=maximize,
            capturable=capturable,
            foreach=foreach,
            differentiable=differentiable,
        )
        super().__init__(params, defaults)

    def _names(self, group: Group) -> tuple[str, ...]:
        centered, momentum = ("grad_avg",) * group["centered"], ("momentum_buffer",) * (group["momentum"] > 0)
        return ("square_avg", *centered, *momentum)

    _live = frozenset(("alpha", "eps", "weight_decay", "momentum"))

    def _rule(self, group: Group) -> tuple[str, list[float]]:
        rule = "rmsprop" + "_centered" * group["centered"] + "_momentum" * (group["momentum"] > 0)
        return rule, [group["alpha"], group["eps"], group["weight_decay"], group["momentum"]]

    def _step_lists(self, group: Group, lr: Tensor, state: State, lists: list[list[Tensor]], **options: Any) -> None:
        if not conventions.are_oneflows():
            return super()._step_lists(group, lr, state, lists, **options)
        params, grads, *states = lists
        for i, param in enumerate(params):
            _step_with_eps_in_the_root(group, lr, param, grads[i], [s[i] for s in states if s], options)


def _step_with_eps_in_the_root(
    group: Group, lr: Tensor, param: Tensor, grad: Tensor, kept: list[Tensor], options: dict[str, Any]
) -> None:
    """OneFlow's RMSprop: a step is ``lr * grad / (average + eps).sqrt()``; momentum keeps steps with their rate."""
    lr, numbers = replicate_like(param, lr), (options.get("grad_scale"), options.get("found_inf"))
    grad_scale, found_inf = (None if x is None else replicate_like(param, x) for x in numbers)
    grad = grad if grad_scale is None else grad / grad_scale
    grad = (-grad if group["maximize"] else grad) + group["weight_decay"] * param
    alpha = group["alpha"]
    squares = kept[0] * alpha + (1 - alpha) * grad * grad
    new, spread = [squares], squares
    if group["centered"]:
        mean = kept[1] * alpha + (1 - alpha) * grad
        new.append(mean)
        spread = squares - mean * mean
    step = lr * grad / (spread + group["eps"]).sqrt()
    if group["momentum"] > 0:
        step = kept[-1] * group["momentum"] + step
        new.append(step)
    for old, value in zip((param, *kept), (param - step, *new), strict=True):
        old.copy_(value if found_inf is None else oneflow.where(found_inf == 0, value, old))


class Rprop(RuleOptimizer):
    """Steps by the gradient's sign alone. (Riedmiller and Braun, 1993.)

    Args:
        params: parameters or groups.
        lr: size of the first step.
        etas: what a step is multiplied by when the sign turns and when it stays.
        step_sizes: smallest and largest step.
        maximize: go uphill.
        capturable, foreach: accepted for compatibility; there is one path.
        differentiable: record the step, so that gradients flow through it.

    Example::

        >>> optimizer = oneflow.optim.Rprop(model.parameters(), lr=1e-2)
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = options(
            lr=lr,
            etas=etas,
            step_sizes=step_sizes,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            capturable=capturable,
        )
        super().__init__(params, defaults)

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("prev", "step_size")

    def _own(self, param: Tensor, group: Group) -> State:
        first = float(group["lr"])
        size = like(param, complex(first, first) if param.is_complex() else first)
        return {"prev": like(param), "step_size": size}

    def _rule(self, group: Group) -> tuple[str, list[float]]:
        return "rprop", [float(v) for v in (*group["etas"], *group["step_sizes"])]


class ASGD(RuleOptimizer):
    """Gradient descent that keeps the average of where it has been. (Polyak and Juditsky, 1992.)

    Args:
        params: parameters or groups.
        lr: learning rate.
        lambd: how much of the parameter a step takes away.
        alpha: power of the rate's fall.
        t0: step at which averaging begins.
        weight_decay: added to the gradient as ``weight_decay * parameter``.
        maximize: go uphill.
        foreach, capturable: accepted for compatibility; there is one path.
        differentiable: record the step, so that gradients flow through it.

    Example::

        >>> optimizer = oneflow.optim.ASGD(model.parameters(), lr=1e-2)
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = options(
            lr=lr,
            lambd=lambd,
            alpha=alpha,
            t0=t0,
            weight_decay=weight_decay,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            capturable=capturable,
        )
        super().__init__(params, defaults)

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("ax",)

    def _shared(self, param: Tensor, group: Group) -> State:
        eta = oneflow.full((), float(group["lr"]), dtype=oneflow.float32, device=param.device)
        return {"step": zero_step(param), "eta": eta, "mu": oneflow.ones((), device=param.device)}

    def _rule(self, group: Group) -> tuple[str, list[float]]:
        return "asgd", [group["lambd"], group["weight_decay"]]

    def _numbers(self, group: Group, lr: Tensor, state: State) -> tuple[Tensor | None, ...]:
        return (lr, state["step"], state["eta"], state["mu"])

    def _after(self, group: Group, lr: Tensor, state: State) -> None:
        step = state["step"]
        state["eta"].copy_(lr / ((step * lr * group["lambd"] + 1.0) ** group["alpha"]))
        state["mu"].copy_(1.0 / (step - group["t0"]).clamp(min=1.0))


def __getattr__(name: str) -> Any:
    return step_function(__name__, ("adadelta", "adagrad", "asgd", "rmsprop", "rprop"), name)
