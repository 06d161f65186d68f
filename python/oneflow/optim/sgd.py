"""Stochastic gradient descent. One op updates all parameters of a group."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow.optim.optimizer import Group, Optimizer, check_number


class SGD(Optimizer):
    """Gradient descent, optionally with momentum. (Sutskever et al., 2013, for Nesterov's.)

    Args:
        params: parameters or groups.
        lr: learning rate.
        momentum: share of the last update that is kept.
        dampening: share of the gradient that momentum leaves out.
        weight_decay: added to the gradient as ``weight_decay * parameter``.
        nesterov: look ahead along the momentum; needs momentum and no dampening.
        maximize: go uphill.
        foreach, differentiable, fused: accepted for compatibility; there is one path.

    Example::

        >>> optimizer = oneflow.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_number("learning rate", lr)
        check_number("momentum value", momentum)
        check_number("weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        if differentiable:
            raise NotImplementedError("SGD: differentiable=True is not implemented")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
                "foreach": foreach,
                "differentiable": differentiable,
                "fused": fused,
            },
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("nesterov", False)
            group.setdefault("maximize", False)

    def _init_state(self, group: Group) -> None:
        """Start momentum at zero.

        The first update of an empty buffer takes the whole gradient, without dampening. From a zero buffer that is the
        same as any later update unless there is dampening, which a traced step therefore refuses.
        """
        if group["momentum"] == 0:
            return
        for param in group["params"]:
            if param.requires_grad and self.state[param].get("momentum_buffer") is None:
                if group["dampening"] != 0:
                    raise NotImplementedError("SGD: run one eager step before a graph when dampening is used")
                self.state[param]["momentum_buffer"] = oneflow.zeros_like(param)

    def _update(self, group: Group, lr: Tensor) -> None:
        momentum = group["momentum"]
        first: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
        later: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            chosen = later
            if momentum:
                state = self.state[param]
                buffer = state.get("momentum_buffer")
                if buffer is None:
                    buffer = state["momentum_buffer"] = oneflow.empty_like(param)
                    chosen = first
                chosen[2].append(buffer)
            chosen[0].append(param)
            chosen[1].append(grad)
        for lists, is_first_step in ((first, True), (later, False)):
            if lists[0]:
                _oneflow._C._fused_sgd_(
                    *lists,
                    lr,
                    momentum=momentum,
                    dampening=group["dampening"],
                    weight_decay=group["weight_decay"],
                    nesterov=group["nesterov"],
                    maximize=group["maximize"],
                    is_first_step=is_first_step,
                )
