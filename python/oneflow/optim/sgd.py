"""Stochastic gradient descent. One op updates all parameters of a group."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base import conventions
from oneflow.optim import _differentiable
from oneflow.optim._options import options, step_function
from oneflow.optim.optimizer import Group, Optimizer, like


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
        foreach, fused: accepted for compatibility; there is one path.
        differentiable: record the step, so that gradients flow through it to gradients, states and the learning rate.

    Example::

        >>> optimizer = oneflow.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
        contiguous_params: bool = False,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0) and not conventions.are_oneflows():
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = options(
            contiguous_params=contiguous_params,
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            fused=fused,
        )
        super().__init__(params, defaults)

    _live = frozenset(("momentum", "dampening", "weight_decay"))

    def _rule(self, group: Group) -> tuple[str, list[float]] | None:
        names = ("weight_decay", "momentum", "dampening", "nesterov")
        return ("sgd_momentum", [*[float(group[name]) for name in names], 0.0]) if group["momentum"] else None

    @property
    def _step_supports_amp_scaling(self) -> bool:
        return all(group.get("fused") for group in self.param_groups)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("nesterov", False)
            group.setdefault("maximize", False)

    def _init_state(self, group: Group) -> None:
        """Start momentum at zero.

        The first update of an empty buffer takes the whole gradient, without dampening. From a zero buffer that is the
        same as any later update unless there is dampening: then the first step creates the buffer. OneFlow dampens the
        first gradient as all others.
        """
        if group["momentum"] == 0 or (group["dampening"] != 0 and not conventions.are_oneflows()):
            return
        for param in group["params"]:
            if param.requires_grad and self.state[param].get("momentum_buffer") is None:
                self.state[param]["momentum_buffer"] = like(param)

    def _update(self, group: Group, lr: Tensor) -> None:
        momentum = group["momentum"]
        first: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
        later: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            if grad.is_sparse:
                _sparse_step(param, grad, group, lr)
                continue
            chosen = later
            if momentum:
                state = self.state[param]
                buffer = state.get("momentum_buffer")
                if buffer is None and conventions.are_oneflows():
                    buffer = state["momentum_buffer"] = like(param)
                elif buffer is None:
                    buffer = state["momentum_buffer"] = like(param, None)
                    chosen = first
                chosen[2].append(buffer if not param.is_complex() else oneflow.view_as_real(buffer))
            if param.is_complex():
                param, grad = oneflow.view_as_real(param), oneflow.view_as_real(grad)
            chosen[0].append(param)
            chosen[1].append(grad)
        live = self._live_tensor(group)
        if live is not None and later[0]:
            rule, hyper = self._rule(group) or ("", [])
            _oneflow._C._fused_update_(
                *later,
                [],
                [],
                lr,
                None,
                None,
                None,
                live,
                rule=rule,
                hyper=hyper,
                maximize=group["maximize"],
                grad_scale=self.__dict__.get("grad_scale"),
                found_inf=self.__dict__.get("found_inf"),
            )
            return
        for lists, is_first_step in ((first, True), (later, False)):
            if lists[0] and group.get("differentiable") and not _oneflow._is_tracing():
                names = ("weight_decay", "momentum", "dampening", "nesterov")
                _differentiable.update_(
                    *lists,
                    [],
                    [],
                    lr,
                    rule="sgd_momentum" if momentum else "sgd",
                    hyper=[*(float(group[name]) for name in names), float(is_first_step)],
                    maximize=group["maximize"],
                )
            elif lists[0]:
                _oneflow._C._fused_sgd_(
                    *lists,
                    lr,
                    momentum=momentum,
                    dampening=group["dampening"],
                    weight_decay=group["weight_decay"],
                    nesterov=group["nesterov"],
                    maximize=group["maximize"],
                    is_first_step=is_first_step,
                    grad_scale=self.__dict__.get("grad_scale"),
                    found_inf=self.__dict__.get("found_inf"),
                )


def _sparse_step(param: Tensor, grad: Tensor, group: Group, lr: Tensor) -> None:
    """Descend along the rows a sparse gradient names."""
    if group["momentum"] or group["weight_decay"]:
        raise RuntimeError("SGD: sparse gradients take neither momentum nor weight decay")
    rate = float(lr) if group["maximize"] else -float(lr)
    param.index_add_(0, grad._indices()[0], grad._values() * rate)


def __getattr__(name: str) -> Any:
    return step_function(__name__, ("sgd",), name)
