"""Adam and AdamW."""

from __future__ import annotations

from typing import Any

from oneflow import Tensor
from oneflow.optim._options import options, step_function
from oneflow.optim._rule import RuleOptimizer
from oneflow.optim.optimizer import Group


class Adam(RuleOptimizer):
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
        foreach, capturable, fused: accepted for compatibility; there is one path. With ``fused`` a GradScaler hands its
            scale to the step.
        differentiable: record the step, so that gradients flow through it.
        do_bias_correction: False is OneFlow's variant without the correction of the moments' bias.
        contiguous_params: accepted for compatibility with OneFlow.

    Example::

        >>> optimizer = oneflow.optim.Adam(model.parameters(), lr=1e-3)
    """

    _refuses_sparse = "{} does not support sparse gradients, please consider SparseAdam instead"

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
        do_bias_correction: bool = True,
        contiguous_params: bool = False,
    ) -> None:
        defaults = options(
            contiguous_params=contiguous_params,
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=decoupled_weight_decay,
        )
        if not do_bias_correction:
            defaults["do_bias_correction"] = False
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("amsgrad", False)
            group.setdefault("maximize", False)
            group.setdefault("decoupled_weight_decay", isinstance(self, AdamW))

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")

    def _rule(self, group: Group) -> tuple[str, list[float]]:
        rule = "adam_amsgrad" if group["amsgrad"] else "adam"
        beta1, beta2 = group["betas"]
        decoupled, corrected = group["decoupled_weight_decay"], group.get("do_bias_correction", True)
        hyper = [float(beta1), float(beta2), group["eps"], group["weight_decay"], float(decoupled), float(corrected)]
        return rule, hyper


class AdamW(Adam):
    """Adam with decoupled weight decay. (Loshchilov and Hutter, 2017.)

    Args:
        params, lr, betas, eps, amsgrad, maximize: as :class:`Adam`.
        weight_decay: each step first multiplies the parameter by ``1 - lr * weight_decay``.

    Example::

        >>> w = oneflow.nn.Parameter(oneflow.ones(2))
        >>> optimizer = oneflow.optim.AdamW([w], lr=0.1)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> bool((w < 1).all())
        True
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
        do_bias_correction: bool = True,
        contiguous_params: bool = False,
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
            do_bias_correction=do_bias_correction,
            contiguous_params=contiguous_params,
        )


def __getattr__(name: str) -> Any:
    return step_function(__name__, ("adam", "adamw"), name)
