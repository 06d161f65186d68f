"""Modules as functions of their parameters; see :func:`oneflow.func.functional_call`."""

from __future__ import annotations

import warnings
from typing import Any

from oneflow.func import functional_call as _functional_call

__all__ = ["functional_call"]


def functional_call(
    module: Any,
    parameters_and_buffers: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers: the older name of :func:`oneflow.func.functional_call`.

    Warns of it, as PyTorch does.

    Example::

        >>> m = nn.Linear(2, 1, bias=False)
        >>> nn.utils.stateless.functional_call(m, {"weight": oneflow.ones(1, 2)}, (oneflow.ones(2),))
        tensor([2.])
    """
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future "
        "version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
