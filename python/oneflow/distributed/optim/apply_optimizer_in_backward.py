"""Optimizers that step while backward still runs, so that no gradient outlives the next one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oneflow import Tensor
from oneflow.nn import Module
from oneflow.optim import Optimizer

__all__ = ["_apply_optimizer_in_backward", "_get_in_backward_optimizers"]


def _apply_optimizer_in_backward(
    optimizer_class: type[Optimizer],
    params: Iterable[Tensor],
    optimizer_kwargs: dict[str, Any],
    register_hook: bool = True,
) -> None:
    """Step an optimizer of its own for each parameter once its gradient is complete, and drop the gradient.

    A parameter may get several, which step in the order of the calls.

    Args:
        optimizer_class: called as ``optimizer_class([parameter], **optimizer_kwargs)``.
        params: parameters, each of which is a leaf.
        optimizer_kwargs: learning rate and the like.
        register_hook: with false, optimizers are made and the caller steps them: ``parameter._in_backward_optimizers``.

    Example::

        >>> from oneflow.distributed.optim import _apply_optimizer_in_backward
        >>> layer = nn.Linear(2, 1, bias=False)
        >>> _ = nn.init.ones_(layer.weight)
        >>> _apply_optimizer_in_backward(oneflow.optim.SGD, layer.parameters(), {"lr": 0.5})
        >>> layer(oneflow.ones(1, 2)).sum().backward()
        >>> layer.weight.tolist(), layer.weight.grad
        ([[0.5, 0.5]], None)
    """
    for param in params:
        known: Any = param
        if not hasattr(known, "_in_backward_optimizers"):
            known._in_backward_optimizers, known._optimizer_classes, known._optimizer_kwargs = [], [], []
        known._in_backward_optimizers.append(optimizer_class([param], **optimizer_kwargs))
        known._optimizer_classes.append(optimizer_class)
        known._optimizer_kwargs.append(optimizer_kwargs)
        if register_hook and not hasattr(known, "_steps_in_backward"):
            known._steps_in_backward = param.register_post_accumulate_grad_hook(_step)


def _step(param: Tensor) -> None:
    for optimizer in param._in_backward_optimizers:  # type: ignore[attr-defined]
        optimizer.step()
    param.grad = None


def _get_in_backward_optimizers(module: Module) -> list[Optimizer]:
    """Return the optimizers of a module's parameters, for checkpoints.

    Example::

        >>> from oneflow.distributed.optim import _apply_optimizer_in_backward, _get_in_backward_optimizers
        >>> layer = nn.Linear(2, 1)
        >>> _apply_optimizer_in_backward(oneflow.optim.SGD, layer.parameters(), {"lr": 0.5})
        >>> len(_get_in_backward_optimizers(layer))
        2
    """
    return [one for param in module.parameters() for one in getattr(param, "_in_backward_optimizers", [])]
