"""``checkpoint``: a module whose forward keeps its inputs alone."""

from __future__ import annotations

import functools
from typing import Any

from oneflow.nn import Module
from oneflow.utils import checkpoint as of_calls

__all__ = ["checkpoint"]


def checkpoint(module: Module, **kwargs: Any) -> Module:
    """Let the forward of a module keep only its inputs for backward, which runs it again. Names and class stay.

    Args:
        module: is returned.
        kwargs: as for :func:`oneflow.utils.checkpoint.checkpoint` with ``use_reentrant=False``.

    Raises:
        NotImplementedError: ``use_reentrant=True``.
        ValueError: something else than a module, or one that is checkpointed already.

    Example::

        >>> from oneflow.distributed._composable import checkpoint
        >>> model = nn.Sequential(nn.Linear(2, 2), checkpoint(nn.Sequential(nn.Linear(2, 2), nn.ReLU())))
        >>> model(oneflow.ones(1, 2)).sum().backward()
        >>> model[1][0].weight.grad.shape
        oneflow.Size([2, 2])
    """
    if kwargs.pop("use_reentrant", False):
        raise NotImplementedError(
            "use_reentrant=True is not supported in composable checkpoint. Please use "
            "oneflow.utils.checkpoint.checkpoint instead."
        )
    if not isinstance(module, Module):
        raise ValueError(f"checkpoint: expected a module, got {type(module).__name__}")
    if isinstance(module, _Checkpointed):
        raise ValueError(f"checkpoint: {type(module).__name__} is checkpointed already")
    object.__setattr__(module, "_checkpoint_options", kwargs)
    kind = type(module)
    module.__class__ = _checkpointed_class(kind)  # type: ignore[arg-type]
    return module


class _Checkpointed:
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        options = self.__dict__["_checkpoint_options"]
        inner = super().forward  # type: ignore[misc]
        return of_calls.checkpoint(inner, *args, use_reentrant=False, **options, **kwargs)


@functools.cache
def _checkpointed_class(kind: type) -> type:
    return type(
        kind.__name__, (_Checkpointed, kind), {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    )
