"""Options of parameter groups and their bounds. An option of one name is bounded alike in every optimizer."""

from __future__ import annotations

import importlib
from typing import Any

from oneflow import Tensor
from oneflow._base.refusals import without_effect

# Options that must not be negative, besides learning rates and betas, by their name in the error.
_NOT_NEGATIVE = {
    "eps": "epsilon",
    **{
        name: name
        for name in (
            "alpha",
            "initial_accumulator_value",
            "lambd",
            "lambda1",
            "lambda2",
            "lr_decay",
            "momentum",
            "momentum_decay",
            "weight_decay",
        )
    },
}


def options(**given: Any) -> dict[str, Any]:
    """The options of a group, checked.

    ``foreach``, ``fused`` and ``capturable`` choose PyTorch's implementation; here there is one, and they only travel
    with the group. ``contiguous_params`` is OneFlow's hint for the same, and warns once that it has no effect.

    Raises:
        ValueError: one is out of its bounds.
    """
    if given.pop("contiguous_params", False):
        without_effect("contiguous_params=True", "one launch updates many parameters, wherever they lie")
    for name, value in given.items():
        if name == "lr":
            check_lr(value)
        elif name == "betas":
            check_betas(value)
        elif name in _NOT_NEGATIVE and not isinstance(value, Tensor) and not value >= 0.0:
            raise ValueError(f"Invalid {_NOT_NEGATIVE[name]} value: {value}")
    if given.get("fused") and given.get("differentiable"):
        raise RuntimeError("`fused` does not support `differentiable`")
    if given.get("fused") and given.get("foreach"):
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    return given


def check_lr(lr: float | Tensor, text: str = "Invalid learning rate: {}") -> None:
    """Raise ValueError for a negative learning rate or a tensor of several."""
    if isinstance(lr, Tensor):
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
    elif not lr >= 0.0:
        raise ValueError(text.format(lr))


def check_betas(betas: tuple[float | Tensor, float | Tensor]) -> None:
    """Raise ValueError unless both are in [0, 1), or both are tensors of one element."""
    if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
        raise ValueError("betas must be either both floats or both Tensors")
    for i in (0, 1):
        beta = betas[i]
        if isinstance(beta, Tensor):
            if beta.numel() != 1:
                raise ValueError(f"Tensor betas[{i}] must be 1-element")
        elif not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def step_function(module: str, names: tuple[str, ...], name: str) -> Any:
    """What a module of optimizers has beside them: steps as functions, which few programs import.

    Raises:
        AttributeError: the module has no function of that name.
    """
    if name not in names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return getattr(importlib.import_module("oneflow.optim.functional"), name)
