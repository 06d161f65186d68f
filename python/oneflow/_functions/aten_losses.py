"""ATen's losses, whose reduction is a number: 0 for none, 1 for the mean, 2 for the sum."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor

_REDUCTIONS = ("none", "mean", "sum")

# The arguments of each loss in ATen's order, and its name in `nn.functional` where that differs.
_LOSSES = {
    "mse_loss": "input target reduction",
    "l1_loss": "input target reduction",
    "soft_margin_loss": "input target reduction",
    "multilabel_margin_loss": "input target reduction",
    "smooth_l1_loss": "input target reduction beta",
    "huber_loss": "input target reduction delta",
    "kl_div": "input target reduction",
    "binary_cross_entropy": "input target weight reduction",
    "binary_cross_entropy_with_logits": "input target weight pos_weight reduction",
    "cosine_embedding_loss": "input1 input2 target margin reduction",
    "hinge_embedding_loss": "input target margin reduction",
    "margin_ranking_loss": "input1 input2 target margin reduction",
    "triplet_margin_loss": "anchor positive negative margin p eps swap reduction",
    "multi_margin_loss": "input target p margin weight reduction",
    "poisson_nll_loss": "input target log_input full eps reduction",
    "cross_entropy_loss": "input target weight reduction ignore_index label_smoothing",
    "nll_loss": "input target weight reduction ignore_index",
    "nll_loss2d": "input target weight reduction ignore_index",
    "nll_loss_nd": "input target weight reduction ignore_index",
    "ctc_loss": "log_probs targets input_lengths target_lengths blank reduction zero_infinity",
}
_PUBLIC = {"cross_entropy_loss": "cross_entropy", "nll_loss2d": "nll_loss", "nll_loss_nd": "nll_loss"}


def _loss(name: str, parameters: list[str]) -> Any:
    def loss(*args: Any, **kwargs: Any) -> Tensor:
        given = {**dict(zip(parameters, args, strict=False)), **kwargs}
        if "self" in given:
            given["input"] = given.pop("self")
        given["reduction"] = _REDUCTIONS[given.get("reduction", 1)]
        return getattr(oneflow.nn.functional, _PUBLIC.get(name, name))(**given)

    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = f"The loss of this name, with a number for the reduction: ``({', '.join(parameters)})``."
    return loss


LOSSES = {name: _loss(name, parameters.split()) for name, parameters in _LOSSES.items()}


def _weight_of(self: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int) -> Tensor:
    kept = target != ignore_index
    if weight is None:
        return kept.sum().to(self.dtype)
    return (weight[oneflow.where(kept, target, 0)] * kept).sum()


def nll_loss_forward(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """The loss, and the sum of the weights that it is divided by (0 without a reduction)."""
    out = LOSSES["nll_loss"](self, target, weight, reduction, ignore_index)
    return out, _weight_of(self, target, weight, ignore_index) if reduction else self.new_zeros(())


LOSSES["nll_loss_forward"] = LOSSES["nll_loss2d_forward"] = nll_loss_forward
