"""Adafactor: second moments of matrices as the product of a column and a row."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.global_layouts import replicate_like
from oneflow.optim._options import check_lr
from oneflow.optim.optimizer import Group, Optimizer, like, local_device


class Adafactor(Optimizer):
    """Adaptive rates with sublinear memory. (Shazeer and Stern, 2018.)

    Args:
        params: parameters or groups.
        lr: learning rate, an upper bound of the relative step.
        beta2_decay: power of the step by which the second moment's decay approaches one.
        eps: two small numbers, of the second moment (None: the dtype's) and of the parameter's size.
        d: clipping threshold of the update's root mean square.
        weight_decay: each step first multiplies the parameter by ``1 - lr * weight_decay``.
        maximize: go uphill.
        foreach: accepted for compatibility; there is one path.

    Example::

        >>> optimizer = oneflow.optim.Adafactor(model.parameters(), lr=1e-2)
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_lr(lr, "Learning rate should be >= 0 but is: {}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        for i, value in enumerate(eps, 1):
            if value is not None and not value >= 0.0:
                raise ValueError(f"epsilon{i} should be >= 0 but is: {value}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` returned. Each parameter counts its own steps."""
        super().load_state_dict(state_dict)
        for state in (self.state.get(p) for group in self.param_groups for p in group["params"]):
            if state:
                state["step"] = state["step"].clone()

    def _init_state(self, group: Group) -> None:
        for param in group["params"]:
            if param.requires_grad and not self.state.get(param):
                self._new_state(param)

    def _new_state(self, param: Tensor) -> dict[str, Tensor]:
        state = {"step": oneflow.zeros((), dtype=oneflow.float32, device=local_device(param))}
        if param.dim() > 1:
            state["row_var"], state["col_var"] = _zero_mean(param, -1), _zero_mean(param, -2)
        else:
            state["variance"] = like(param)
        self.state[param] = state
        return state

    def _update(self, group: Group, lr: Tensor) -> None:
        eps1, eps2 = group["eps"]
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            if param.is_complex():
                raise RuntimeError("Adafactor does not support complex parameters")
            if grad.is_sparse:
                raise RuntimeError("Adafactor does not support sparse gradients")
            state = self.state.get(param) or self._new_state(param)
            grad = -grad if group["maximize"] else grad
            tiny = oneflow.finfo(param.dtype).eps if eps1 is None else eps1
            step = state["step"].add_(1.0)
            count = step.double()
            share = count ** group["beta2_decay"]
            rate = replicate_like(param, oneflow.minimum(lr.double(), count**-0.5)) * _rms(param).clamp(min=eps2)
            share = replicate_like(param, share)
            if group["weight_decay"] != 0:
                param.mul_(replicate_like(param, 1.0 - lr * group["weight_decay"]).to(param.dtype))
            squares = grad * grad
            if grad.dim() > 1:
                row, column = state["row_var"], state["col_var"]
                row.lerp_(squares.mean(-1, keepdim=True), share.to(row.dtype))
                column.lerp_(squares.mean(-2, keepdim=True), share.to(row.dtype))
                estimate = (row @ column) / row.mean(-2, keepdim=True).clamp(min=tiny)
            else:
                estimate = state["variance"].lerp_(squares, share.to(grad.dtype))
            update = estimate.clamp(min=tiny * tiny).rsqrt() * grad
            param.sub_((update * (rate / (_rms(update) / group["d"]).clamp(min=1.0))).to(param.dtype))


def _zero_mean(param: Tensor, dim: int) -> Tensor:
    """Zeros for the means along a dimension; of a global parameter in the layout that its means have."""
    shape, dim = list(param.shape), dim % param.dim()
    shape[dim] = 1
    if not param.is_global:
        return param.new_zeros(shape)
    whole = oneflow.sbp.broadcast
    layout = [whole if s.dim == dim else s for s in param.sbp]
    creates: Any = oneflow.zeros
    return creates(shape, dtype=param.dtype, placement=param.placement, sbp=layout)


def _rms(x: Tensor) -> Tensor:
    return x.square().mean().sqrt() if x.dtype is oneflow.float64 else x.float().square().mean().sqrt()
