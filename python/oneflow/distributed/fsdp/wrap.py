"""Which modules :class:`~oneflow.distributed.fsdp.FullyShardedDataParallel` shards separately.

A policy is a function of ``module``, ``recurse`` and ``nonwrapped_numel``: with ``recurse`` it says whether to look
below the module, without it whether the module is one of them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from oneflow import nn
from oneflow.nn import Module

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]

_EXCLUDED: set[type] = {nn.ModuleList, nn.ModuleDict}
_LEAVES: set[type] = {nn.MultiheadAttention}


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module.

    Example::

        >>> oneflow.distributed.fsdp.wrap.always_wrap_policy()
        True
    """
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Modules for which a function is true.

    Example::

        >>> from oneflow.distributed.fsdp.wrap import lambda_auto_wrap_policy
        >>> lambda_auto_wrap_policy(nn.Linear(1, 1), False, 2, lambda m: isinstance(m, nn.Linear))
        True
    """
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set[type[Module]]
) -> bool:
    """Modules of some classes.

    Example::

        >>> from oneflow.distributed.fsdp.wrap import transformer_auto_wrap_policy
        >>> transformer_auto_wrap_policy(nn.Linear(1, 1), False, 2, {nn.Linear})
        True
    """
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Modules with at least ``min_num_params`` elements in parameters that no module below has taken.

    Example::

        >>> from oneflow.distributed.fsdp.wrap import size_based_auto_wrap_policy
        >>> size_based_auto_wrap_policy(nn.Linear(9, 9), False, 90, min_num_params=50)
        True
    """
    large = nonwrapped_numel >= min_num_params
    if recurse:
        return large and not isinstance(module, tuple(force_leaf_modules or _LEAVES))
    return large and not isinstance(module, tuple(exclude_wrap_modules or _EXCLUDED))


class ModuleWrapPolicy:
    """Modules of some classes.

    Example::

        >>> from oneflow.distributed.fsdp.wrap import ModuleWrapPolicy
        >>> ModuleWrapPolicy({nn.Linear})(nn.Linear(1, 1), recurse=False)
        True
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = tuple(set(module_classes))

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, self._module_classes)


class CustomPolicy:
    """Modules for which a function is true, or gives options of their own.

    Args:
        lambda_fn: gives true, false, or a dictionary of arguments of ``FullyShardedDataParallel``.

    Example::

        >>> from oneflow.distributed.fsdp.wrap import CustomPolicy
        >>> CustomPolicy(lambda module: isinstance(module, nn.Linear))(nn.ReLU(), recurse=False)
        False
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool | dict[str, Any]:
        return True if recurse else self._lambda_fn(module)


class _Wrapping(threading.local):
    """What :func:`wrap` does on this thread."""

    def __init__(self) -> None:
        self.wrapper: tuple[Any, dict[str, Any]] | None = None


_WRAPPING = _Wrapping()


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Inside, :func:`wrap` wraps with ``wrapper_cls(module, **wrapper_kwargs)``.

    Example::

        >>> from oneflow.distributed.fsdp.wrap import enable_wrap, wrap
        >>> with enable_wrap(wrapper_cls=nn.Sequential):
        ...     layer = wrap(nn.ReLU())
        >>> layer
        Sequential(
          (0): ReLU()
        )
    """
    before, _WRAPPING.wrapper = _WRAPPING.wrapper, (wrapper_cls, wrapper_kwargs)
    try:
        yield
    finally:
        _WRAPPING.wrapper = before


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """Wrap a module as the :func:`enable_wrap` around says; outside of one, return it.

    Example::

        >>> oneflow.distributed.fsdp.wrap.wrap(nn.ReLU())
        ReLU()
    """
    if _WRAPPING.wrapper is None:
        return module
    kind, options = _WRAPPING.wrapper
    return kind(module, **{**options, **wrap_overrides})
