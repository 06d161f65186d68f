"""Weight norm by a hook: the older form, whose originals are named ``weight_g`` and ``weight_v``."""

from __future__ import annotations

import warnings
from typing import Any

from oneflow import Tensor
from oneflow.nn.modules.module import Module
from oneflow.nn.parameter import Parameter, _check_not_lazy
from oneflow.nn.utils.parametrizations import norm_except_dim


class WeightNorm:
    """The hook that computes the weight before each forward.

    Example::

        >>> m = nn.utils.weight_norm(nn.Linear(2, 3))
        >>> hook = next(iter(m._forward_pre_hooks.values()))
        >>> hook.name, hook.dim
        ('weight', 0)
    """

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """``g * v / norm(v)``."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / norm_except_dim(v, 2, self.dim))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Let a weight be ``g * v / norm(v)``, with norms over all dimensions but ``dim`` (None: over all).

    Prefer :func:`oneflow.nn.utils.parametrizations.weight_norm`.

    Raises:
        RuntimeError: the weight has it already.

    Example::

        >>> m = nn.utils.weight_norm(nn.Linear(2, 3))
        >>> sorted(name for name, _ in m.named_parameters())
        ['bias', 'weight_g', 'weight_v']
    """
    warnings.warn(
        "`oneflow.nn.utils.weight_norm` is deprecated in favor of `oneflow.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, WeightNorm) and hook.name == name:
            raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    _check_not_lazy(getattr(module, name), "WeightNorm")
    hook = WeightNorm(name, dim)
    weight = getattr(module, name)
    del module._parameters[name]
    module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, 2, hook.dim).detach()))
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight a parameter again.

    Raises:
        ValueError: it has no weight norm.

    Example::

        >>> m = nn.utils.remove_weight_norm(nn.utils.weight_norm(nn.Linear(2, 3)))
        >>> sorted(name for name, _ in m.named_parameters())
        ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            weight = hook.compute_weight(module)
            delattr(module, name)
            del module._parameters[name + "_g"], module._parameters[name + "_v"]
            setattr(module, name, Parameter(weight.detach()))
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
