"""ATen's losses, whose reduction is a number: 0 for none, 1 for the mean, 2 for the sum, or the word for it."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor

# The arguments of each loss in ATen's order, and its name in `nn.functional` where that differs.
_LOSSES = {
    "mse_loss": "input target reduction",
    "l1_loss": "input target reduction",
    "soft_margin_loss": "input target reduction",
    "multilabel_margin_loss": "input target reduction",
    "smooth_l1_loss": "input target reduction beta",
    "huber_loss": "input target reduction delta",
    "kl_div": "input target reduction log_target",
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
        if len(args) > len(parameters):
            raise TypeError(f"{name}() takes {len(parameters)} positional arguments but {len(args)} were given")
        given = {**dict(zip(parameters, args, strict=False)), **kwargs}
        if "self" in given:
            given["input"] = given.pop("self")
        reduction = given.get("reduction", 1)
        if not isinstance(reduction, str):
            # Every other number means none too.
            given["reduction"] = "mean" if reduction == 1 else "sum" if reduction == 2 else "none"
        return getattr(oneflow.nn.functional, _PUBLIC.get(name, name))(**given)

    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = f"The loss of this name, with a number for the reduction: ``({', '.join(parameters)})``."
    return loss


LOSSES = {name: _loss(name, parameters.split()) for name, parameters in _LOSSES.items()}


def _unreduced(name: str, example: str) -> Any:
    """The loss as a function of the package itself, which reduces nothing unless told."""
    parameters = _LOSSES[name].split()
    at = parameters.index("reduction")

    def loss(*args: Any, **kwargs: Any) -> Tensor:
        if len(args) <= at:
            kwargs.setdefault("reduction", 0)
        return LOSSES[name](*args, **kwargs)

    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = (
        f"``nn.functional.{name}`` with a number for the reduction: ``({', '.join(parameters)})``.\n\n"
        f"``reduction`` is 0 for none (by default), 1 for the mean and 2 for the sum, or the word for it.\n\n"
        f"Example::\n\n    {example}\n"
    )
    return loss


# Those that are functions of the package itself.
binary_cross_entropy_with_logits = _unreduced(
    "binary_cross_entropy_with_logits",
    ">>> oneflow.binary_cross_entropy_with_logits(oneflow.tensor([0.0]), oneflow.tensor([1.0]))\n    tensor([0.6931])",
)
cosine_embedding_loss = _unreduced(
    "cosine_embedding_loss",
    ">>> oneflow.cosine_embedding_loss(oneflow.eye(2), oneflow.eye(2), oneflow.ones(2))\n    tensor([0., 0.])",
)
ctc_loss = _unreduced(
    "ctc_loss",
    ">>> oneflow.ctc_loss(oneflow.zeros(1, 1, 2), oneflow.tensor([[1]]), (1,), (1,))\n    tensor([-0.])",
)
hinge_embedding_loss = _unreduced(
    "hinge_embedding_loss",
    ">>> oneflow.hinge_embedding_loss(oneflow.ones(2), oneflow.tensor([1.0, -1.0]))\n    tensor([1., 0.])",
)
kl_div = _unreduced(
    "kl_div", ">>> oneflow.kl_div(oneflow.tensor([0.0, 1.0]), oneflow.tensor([1.0, 1.0]))\n    tensor([ 0., -1.])"
)
margin_ranking_loss = _unreduced(
    "margin_ranking_loss",
    ">>> oneflow.margin_ranking_loss(oneflow.zeros(2), oneflow.ones(2), oneflow.ones(2))\n    tensor([1., 1.])",
)
poisson_nll_loss = _unreduced(
    "poisson_nll_loss", ">>> oneflow.poisson_nll_loss(oneflow.zeros(2), oneflow.ones(2))\n    tensor([1., 1.])"
)
triplet_margin_loss = _unreduced(
    "triplet_margin_loss",
    ">>> oneflow.triplet_margin_loss(oneflow.eye(2), oneflow.eye(2), oneflow.eye(2))\n    tensor([1., 1.])",
)


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
