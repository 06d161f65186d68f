"""Adam and AdamW. One op updates all parameters of a group."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow.optim.optimizer import Group, Optimizer, check_number


class Adam(Optimizer):
    """Adaptive moments. (Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2014.)

    Args:
        params: parameters or groups.
        lr: learning rate.
        betas: decay of the first and of the second moment.
        eps: added to the root of the second moment.
        weight_decay: added to the gradient as ``weight_decay * parameter``.
        amsgrad: divide by the largest second moment so far.
        maximize: go uphill.
        decoupled_weight_decay: shrink the parameter itself instead, as AdamW does.
        foreach, capturable, differentiable, fused: accepted for compatibility; there is one path.

    Example::

        >>> optimizer = oneflow.optim.Adam(model.parameters(), lr=1e-3)
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_number("learning rate", lr)
        check_number("epsilon value", eps)
        for i in (0, 1):
            check_number(f"beta parameter at index {i}", betas[i], high=1.0)
        check_number("weight_decay value", weight_decay)
        if differentiable:
            raise NotImplementedError(f"{type(self).__name__}: differentiable=True is not implemented")
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
                "fused": fused,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("amsgrad", False)
            group.setdefault("maximize", False)
            group.setdefault("decoupled_weight_decay", isinstance(self, AdamW))

    def _new_state(self, param: Tensor, amsgrad: bool, step: Tensor) -> dict[str, Tensor]:
        state = {"step": step, "exp_avg": oneflow.zeros_like(param), "exp_avg_sq": oneflow.zeros_like(param)}
        if amsgrad:
            state["max_exp_avg_sq"] = oneflow.zeros_like(param)
        self.state[param] = state
        return state

    def _init_state(self, group: Group) -> None:
        step = None
        for param in group["params"]:
            if param.requires_grad and not self.state.get(param):
                step = _zero_step(param) if step is None else step
                self._new_state(param, group["amsgrad"], step)

    def _update(self, group: Group, lr: Tensor) -> None:
        amsgrad = group["amsgrad"]
        # Parameters that joined together share one step count; a call serves those of one count.
        calls: dict[int, tuple[Tensor, list[Tensor], list[Tensor], list[Tensor], list[Tensor], list[Tensor]]] = {}
        new_step = None
        states = self.state
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            state = states.get(param)
            if not state:
                new_step = _zero_step(param) if new_step is None else new_step
                state = self._new_state(param, amsgrad, new_step)
            step = state["step"]
            call = calls.get(id(step))
            if call is None:
                call = calls[id(step)] = (step, [], [], [], [], [])
            call[1].append(param)
            call[2].append(grad)
            call[3].append(state["exp_avg"])
            call[4].append(state["exp_avg_sq"])
            if amsgrad:
                call[5].append(state["max_exp_avg_sq"])
        for step, params, grads, exp_avgs, exp_avg_sqs, largest in calls.values():
            step.add_(1.0)
            if amsgrad:
                _amsgrad(group, lr, step, params, grads, exp_avgs, exp_avg_sqs, largest)
                continue
            update = _oneflow._C._fused_adamw_ if group["decoupled_weight_decay"] else _oneflow._C._fused_adam_
            update(
                params,
                grads,
                exp_avgs,
                exp_avg_sqs,
                lr,
                step,
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=group["maximize"],
            )


class AdamW(Adam):
    """Adam with weight decay apart from the gradient. (Loshchilov and Hutter, 2017.)

    Args:
        params, lr, betas, eps, amsgrad, maximize: as :class:`Adam`.
        weight_decay: each step first multiplies the parameter by ``1 - lr * weight_decay``.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )


def _zero_step(param: Tensor) -> Tensor:
    return oneflow.zeros((), dtype=oneflow.float32, device=param.device)


def _amsgrad(
    group: Group,
    lr: Tensor,
    step: Tensor,
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    largest: list[Tensor],
) -> None:
    """The same update with the running maximum of the second moment, composed of ops."""
    beta1, beta2 = group["betas"]
    decay = group["weight_decay"]
    count = step.to(oneflow.float64)
    # beta ** step, by ops: the count is a tensor.
    correction1 = 1.0 - oneflow.pow(beta1, count)
    correction2 = 1.0 - oneflow.pow(beta2, count)
    step_size = lr / correction1
    for param, grad, exp_avg, exp_avg_sq, top in zip(params, grads, exp_avgs, exp_avg_sqs, largest, strict=True):
        if group["maximize"]:
            grad = -grad
        if decay and group["decoupled_weight_decay"]:
            param.mul_((1.0 - lr * decay).to(param.dtype))
        elif decay:
            grad = grad + param * decay
        exp_avg.mul_(beta1).add_(grad, alpha=1.0 - beta1)
        exp_avg_sq.mul_(beta2).add_(grad * grad, alpha=1.0 - beta2)
        top.copy_(oneflow.maximum(top, exp_avg_sq))
        denominator = top.sqrt() / correction2.sqrt().to(param.dtype) + group["eps"]
        param.sub_(exp_avg / denominator * step_size.to(param.dtype))
