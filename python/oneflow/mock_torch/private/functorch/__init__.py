"""``functorch``, the package that became ``torch.func``: its functions, and modules as functions of parameters.

Those that have a newer name warn of it, as PyTorch's do.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import oneflow
from oneflow import Tensor, func
from oneflow.func import functional_call

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
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


def _deprecated(name: str, newer: str = "torch.func") -> Callable[..., Any]:
    call: Callable[..., Any] = getattr(func, name)

    @functools.wraps(call)
    def warned(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            "We've integrated functorch into PyTorch. As the final step of the integration, "
            f"`functorch.{name}` is deprecated as of PyTorch 2.0 and will be deleted in a future version of PyTorch >= "
            f"2.3. Please use `{newer}.{name}` instead; see the PyTorch 2.0 release notes and/or the `torch.func` "
            "migration guide for more details https://pytorch.org/docs/main/func.migrating.html",
            FutureWarning,
            stacklevel=2,
        )
        return call(*args, **kwargs)

    return warned


functionalize = _deprecated("functionalize")
grad = _deprecated("grad")
grad_and_value = _deprecated("grad_and_value")
hessian = _deprecated("hessian")
jacfwd = _deprecated("jacfwd")
jacrev = _deprecated("jacrev")
jvp = _deprecated("jvp")
vjp = _deprecated("vjp")
vmap = _deprecated("vmap", "torch")


class FunctionalModuleWithBuffers:
    """A module as a function of its parameters, its buffers and its inputs."""

    def __init__(self, model: Any) -> None:
        self.stateless_model = copy.deepcopy(model)
        self.param_names = tuple(name for name, _ in model.named_parameters())
        self.buffer_names = tuple(name for name, _ in model.named_buffers())

    def __call__(self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        state = dict(zip((*self.param_names, *self.buffer_names), (*params, *buffers), strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without buffers as a function of its parameters and its inputs."""

    def __call__(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        return super().__call__(params, (), *args, **kwargs)


def make_functional(model: Any, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, _Tensors]:
    """Return ``(function, parameters)``, where ``function(parameters, *args, **kwargs)`` calls the module.

    Raises:
        RuntimeError: the module has buffers, which :func:`make_functional_with_buffers` returns too.
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    return FunctionalModule(model), _parameters(model, disable_autograd_tracking)


def make_functional_with_buffers(
    model: Any, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, _Tensors, _Tensors]:
    """Return ``(function, parameters, buffers)``, where ``function(parameters, buffers, *args)`` calls the module."""
    return FunctionalModuleWithBuffers(model), _parameters(model, disable_autograd_tracking), tuple(model.buffers())


def _parameters(model: Any, is_detached: bool) -> _Tensors:
    return tuple(p.detach() if is_detached else p for p in model.parameters())


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
