"""Spectral norm by a hook: the older form, whose original is named ``weight_orig``."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn.modules.module import Module
from oneflow.nn.parameter import Parameter, _check_not_lazy
from oneflow.nn.utils.parametrizations import _unit


class SpectralNorm:
    """The hook that computes the weight before each forward.

    Example::

        >>> m = nn.utils.spectral_norm(nn.Linear(2, 3))
        >>> hook = next(iter(m._forward_pre_hooks.values()))
        >>> hook.name, hook.n_power_iterations
        ('weight', 1)
    """

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def matrix(self, weight: Tensor) -> Tensor:
        """The weight with its outputs as rows."""
        if self.dim != 0:
            weight = weight.permute([self.dim, *[d for d in range(weight.dim()) if d != self.dim]])
        return weight.reshape(weight.size(0), -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight over its largest singular value; in training after some power iterations."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.matrix(weight)
        if do_power_iteration:
            with oneflow.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(_unit(oneflow.mv(matrix.t(), u), self.eps))
                    u.copy_(_unit(oneflow.mv(matrix, v), self.eps))
            # The next iteration must not change what this backward reads.
            u, v = u.clone(), v.clone()
        return weight / oneflow.dot(u, oneflow.mv(matrix, v))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divide a weight by its largest singular value.

    Prefer :func:`oneflow.nn.utils.parametrizations.spectral_norm`, which has the same arguments.

    Raises:
        RuntimeError: the weight has it already.

    Example::

        >>> m = nn.utils.spectral_norm(nn.Linear(2, 3))
        >>> sorted(name for name, _ in m.named_parameters())
        ['bias', 'weight_orig']
    """
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    hook = SpectralNorm(name, n_power_iterations, dim, eps)
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    _check_not_lazy(weight, "SpectralNorm")
    with oneflow.no_grad():
        matrix = hook.matrix(weight)
        u = _unit(oneflow.randn_like(matrix[:, 0]), eps)
        v = _unit(oneflow.randn_like(matrix[0]), eps)
    del module._parameters[name]
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(name + "_u", u)
    module.register_buffer(name + "_v", v)
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight a parameter again.

    Raises:
        ValueError: it has no spectral norm.

    Example::

        >>> m = nn.utils.remove_spectral_norm(nn.utils.spectral_norm(nn.Linear(2, 3)))
        >>> sorted(name for name, _ in m.named_parameters())
        ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            with oneflow.no_grad():
                weight = hook.compute_weight(module, False)
            delattr(module, name)
            del module._buffers[name + "_u"], module._buffers[name + "_v"], module._parameters[name + "_orig"]
            module.register_parameter(name, Parameter(weight.detach()))
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
