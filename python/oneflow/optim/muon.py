"""Muon: momentum whose matrix is orthogonalized."""

from __future__ import annotations

import math
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.global_layouts import replicate_like
from oneflow.optim._options import check_lr
from oneflow.optim.optimizer import Group, Optimizer, like

_ADJUST = {
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
    "spectral_unclamped": lambda rows, columns: math.sqrt(rows / columns),
}


class Muon(Optimizer):
    """Gradient descent along the orthogonal factor of the momentum, for the matrices of hidden layers. (Jordan, 2024.)

    Args:
        params: 2-D parameters or groups of them.
        lr: learning rate.
        weight_decay: each step first multiplies the parameter by ``1 - lr * weight_decay``.
        momentum: decay of the average of gradients.
        nesterov: look ahead along the momentum.
        ns_coefficients: of the Newton-Schulz iteration's polynomial.
        eps: smallest norm a gradient is divided by.
        ns_steps: iterations.
        adjust_lr_fn: how the rate depends on the shape: "original", "match_rms_adamw" or "spectral_unclamped".

    Example::

        >>> w = oneflow.nn.Parameter(oneflow.ones(2, 2))
        >>> optimizer = oneflow.optim.Muon([w], lr=0.1)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> bool((w < 1).all())
        True
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_lr(lr, "Learning rate should be >= 0 but is: {}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn is not None and adjust_lr_fn not in _ADJUST:
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for param in group["params"]:
                if param.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {param.size()}"
                    )

    def _init_state(self, group: Group) -> None:
        for param in group["params"]:
            if param.requires_grad and not self.state.get(param):
                self.state[param] = {"momentum_buffer": like(param)}

    def _update(self, group: Group, lr: Tensor) -> None:
        momentum = group["momentum"]
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            if param.is_complex():
                raise RuntimeError("Muon does not support complex parameters")
            if grad.is_sparse:
                raise RuntimeError("Muon does not support sparse gradients")
            state = self.state[param]
            if not state:
                state["momentum_buffer"] = like(grad)
            buffer = state["momentum_buffer"].lerp_(grad, 1 - momentum)
            update = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
            update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
            adjust = _ADJUST[group["adjust_lr_fn"] or "original"](*param.shape)
            param.mul_(replicate_like(param, 1.0 - lr * group["weight_decay"]).to(param.dtype))
            param.sub_(update.to(param.dtype) * replicate_like(param, lr * adjust).to(param.dtype))


def _orthogonal(grad: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """The orthogonal factor of a matrix, roughly, by Newton-Schulz iterations in bfloat16."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = grad.to(oneflow.bfloat16)
    tall = grad.size(0) > grad.size(1)
    x = x.t() if tall else x
    x = x / x.float().square().sum().sqrt().to(x.dtype).clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.t()
        x = oneflow.addmm(x, oneflow.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.t() if tall else x
