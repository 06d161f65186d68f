"""OneFlow's own optimizers: LAMB and FTRL."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base.global_layouts import replicate_like
from oneflow.optim._options import options
from oneflow.optim._rule import RuleOptimizer, State
from oneflow.optim.optimizer import Group, like


class LAMB(RuleOptimizer):
    """Adam's direction, scaled by the norm of each layer's weights. (You et al., 2019.)

    As in OneFlow, decoupled decay is added after the direction's norm is computed.

    Args:
        params: parameters or groups.
        lr: learning rate.
        betas: decay of the first and of the second moment.
        eps: added to the root of the second moment.
        weight_decay: factor of the parameter in the direction, or without ``adam_w_mode`` in the gradient.
        adam_w_mode: decouple decay from the gradient.
        do_bias_correction: correct the moments for having begun at zero.
        amsgrad: not supported.

    Example::

        >>> optimizer = oneflow.optim.LAMB(model.parameters(), lr=1e-3, weight_decay=1e-2)
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        adam_w_mode: bool = True,
        do_bias_correction: bool = True,
        amsgrad: bool = False,
        *,
        contiguous_params: bool = False,
        fused: bool = False,
    ) -> None:
        if amsgrad:
            raise RuntimeError("LAMB does not support AMSGrad variant.")
        defaults = options(
            contiguous_params=contiguous_params,
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            adam_w_mode=adam_w_mode,
            bias_correction1=1.0,
            bias_correction2=1.0,
            do_bias_correction=do_bias_correction,
            amsgrad=amsgrad,
        )
        super().__init__(params, defaults)

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def _rule(self, group: Group) -> tuple[str, list[float]]:
        beta1, beta2 = group["betas"]
        decoupled, corrected = float(group["adam_w_mode"]), float(group["do_bias_correction"])
        return "lamb", [float(beta1), float(beta2), group["eps"], group["weight_decay"], decoupled, corrected]

    def _step_lists(self, group: Group, lr: Tensor, state: State, lists: list[list[Tensor]], **options: Any) -> None:
        params = lists[0]
        # The rule writes the direction without decoupled decay; how far to go depends on its norm. A program reads the
        # decay from memory, where it may change.
        live = options["live"]
        decay = group["weight_decay"] if live is None else live[3]
        directions = [like(param) for param in params]
        inputs: list[Any] = [params, *lists[1:4], directions, lr, state["step"], None, None]
        _oneflow._C._fused_update_(*inputs, **options)
        for param, direction in zip(params, directions, strict=True):
            length, other = param.float().square().sum().sqrt(), direction.float().square().sum().sqrt()
            ratio = oneflow.where((length > 0) & (other > 0), length / other, oneflow.ones_like(length))
            if (found_inf := options.get("found_inf")) is not None:
                ratio = ratio * replicate_like(param, 1.0 - found_inf)
            if group["adam_w_mode"]:
                direction = direction + param * (decay if live is None else replicate_like(param, decay))
            param.sub_((direction * (ratio * replicate_like(param, lr))).to(param.dtype))


class Ftrl(RuleOptimizer):
    """Follow the regularised leader. (McMahan et al., "Ad Click Prediction", 2013.)

    Args:
        params: parameters or groups.
        lr: learning rate.
        weight_decay: this share of a parameter is added to its gradient.
        lr_power: power of the accumulated squares. The published rule has 0.5; with OneFlow's default of -0.5 steps
            grow as squares accumulate.
        initial_accumulator_value: where the accumulated squares start.
        lambda1, lambda2: strength of the L1 and of the L2 regularisation.
        beta: added to the power of the accumulated squares.

    Example::

        >>> optimizer = oneflow.optim.Ftrl(model.parameters(), lr=1e-3, lambda1=1e-4)
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 0.001,
        weight_decay: float = 0.0,
        lr_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        lambda1: float = 0.0,
        lambda2: float = 0.0,
        beta: float = 0.0,
    ) -> None:
        defaults = options(
            lr=lr,
            weight_decay=weight_decay,
            lr_power=lr_power,
            initial_accumulator_value=initial_accumulator_value,
            lambda1=lambda1,
            lambda2=lambda2,
            beta=beta,
        )
        super().__init__(params, defaults)

    def _names(self, group: Group) -> tuple[str, ...]:
        return ("accumulate", "z")

    def _own(self, param: Tensor, group: Group) -> State:
        squares = like(param, group["initial_accumulator_value"])
        return {"accumulate": squares, "z": like(param)}

    def _rule(self, group: Group) -> tuple[str, list[float]]:
        return "ftrl", [group[name] for name in ("weight_decay", "lr_power", "lambda1", "lambda2", "beta")]
