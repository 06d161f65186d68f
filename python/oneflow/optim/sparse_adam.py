"""SparseAdam: Adam on the rows a sparse gradient names."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.optim._options import check_betas, check_lr
from oneflow.optim.optimizer import Group, Optimizer


class SparseAdam(Optimizer):
    """Adam for sparse gradients: only rows with a gradient change, their moments too.

    Args:
        params: dense parameters whose gradients are sparse, or groups of them.
        lr: learning rate.
        betas: decay of the first and of the second moment.
        eps: added to the root of the second moment.
        maximize: go uphill.

    Example::

        >>> m = oneflow.nn.Embedding(3, 2, sparse=True)
        >>> optimizer = oneflow.optim.SparseAdam(m.parameters())
        >>> m(oneflow.tensor([1])).sum().backward()
        >>> optimizer.step()
    """

    _counts_in_tensors = False

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if not isinstance(lr, Tensor) and not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        check_lr(lr)
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        sparse = [
            [i, j]
            for i, group in enumerate(self.param_groups)
            for j, param in enumerate(group["params"])
            if param.is_sparse
        ]
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")

    def _update(self, group: Group, lr: Tensor) -> None:
        beta1, beta2 = group["betas"]
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            if not grad.is_sparse:
                raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
            state = self.state[param]
            if not state:
                state["step"] = 0
                state["exp_avg"] = oneflow.zeros_like(param)
                state["exp_avg_sq"] = oneflow.zeros_like(param)
            state["step"] += 1
            grad = grad.coalesce()
            values = -grad._values() if group["maximize"] else grad._values()
            if values.numel() == 0:
                continue
            at = tuple(grad._indices())
            first = state["exp_avg"][at].lerp(values, 1 - beta1)
            second = state["exp_avg_sq"][at].lerp(values * values, 1 - beta2)
            state["exp_avg"][at] = first
            state["exp_avg_sq"][at] = second
            size = float(lr) * (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
            param[at] = param[at] - first / (second.sqrt() + group["eps"]) * size
