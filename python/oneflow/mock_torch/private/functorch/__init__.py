"""``functorch``, the package that became ``torch.func``: its functions, and modules as functions of parameters."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    vjp,
    vmap,
)

__all__ = [
    "combine_state_for_ensemble",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "vjp",
    "vmap",
]

_Tensors = tuple[Tensor, ...]


def make_functional(model: Any, disable_autograd_tracking: bool = False) -> tuple[Callable[..., Any], _Tensors]:
    """Return ``(function, parameters)``, where ``function(parameters, *args, **kwargs)`` calls the module.

    Raises:
        RuntimeError: the module has buffers, which :func:`make_functional_with_buffers` returns too.
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    function, params, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    return lambda values, *args, **kwargs: function(values, (), *args, **kwargs), params


def make_functional_with_buffers(
    model: Any, disable_autograd_tracking: bool = False
) -> tuple[Callable[..., Any], _Tensors, _Tensors]:
    """Return ``(function, parameters, buffers)``, where ``function(parameters, buffers, *args)`` calls the module."""
    params, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    names = (*params, *buffers)
    bare = copy.deepcopy(model)

    def function(new_params: Sequence[Tensor], new_buffers: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        state = dict(zip(names, (*new_params, *new_buffers), strict=True))
        return functional_call(bare, state, args, kwargs)

    values = tuple(p.detach() if disable_autograd_tracking else p for p in params.values())
    return function, values, tuple(buffers.values())


def combine_state_for_ensemble(models: Sequence[Any]) -> tuple[Callable[..., Any], _Tensors, _Tensors]:
    """Return ``(function, parameters, buffers)`` of modules of one architecture, their tensors stacked for ``vmap``.

    Raises:
        RuntimeError: there is no module, or they differ in class or mode.
    """
    if len(models) == 0:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({(type(model), model.training) for model in models}) != 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to be of the same class and in the same training/eval mode"
        )
    functions, params, buffers = zip(*(make_functional_with_buffers(model) for model in models), strict=True)

    def stacked(parts: Any) -> _Tensors:
        return tuple(oneflow.stack(list(same)).detach() for same in zip(*parts, strict=True))

    return functions[0], stacked(params), stacked(buffers)
