"""Nests of tensors made global and local, and a context in which new tensors are global."""

from __future__ import annotations

import functools
import inspect
import warnings
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.overrides import TorchFunctionMode
from oneflow.utils._pytree import tree_map

__all__ = ["current_global_mode", "global_mode", "to_global", "to_local"]


def to_global(input: Any, placement: Any = None, sbp: Any = None, **kwargs: Any) -> Any:
    """Make every tensor of a nest global; other values stay.

    Args:
        input: a tensor, or tuples, lists and dictionaries of tensors; a state_dict of several ranks for instance.
        placement, sbp, **kwargs: as for ``Tensor.to_global``; ``sbp`` may be a function of the tensor.

    Raises:
        ValueError: neither placement nor sbp is given.

    Example::

        >>> oneflow.testing.run_ranks(2, lambda: oneflow.utils.global_view.to_global({"x": oneflow.ones(2)},
        ...     oneflow.placement.all("cpu"), oneflow.sbp.split(0))["x"].shape)
        [oneflow.Size([4]), oneflow.Size([4])]
    """
    if placement is None and sbp is None:
        raise ValueError("to_global: placement and sbp can not be both None")

    chosen = inspect.isroutine(sbp) or isinstance(sbp, functools.partial)

    def convert(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        return x.to_global(placement, sbp(x) if chosen else sbp, **kwargs)

    return tree_map(convert, input)


def to_local(input: Any, *, copy: bool = False) -> Any:
    """Take this rank's part of every global tensor of a nest; other values stay.

    Example::

        >>> def rank():
        ...     x = oneflow.ones(2).to_global(oneflow.placement.all("cpu"), oneflow.sbp.broadcast)
        ...     return oneflow.utils.global_view.to_local([x])[0].shape
        >>> oneflow.testing.run_ranks(2, rank)
        [oneflow.Size([2]), oneflow.Size([2])]
    """

    def convert(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        if not x.is_global:
            warnings.warn("Warning: Only global tensor can be converted to local tensor.", stacklevel=2)
            return x
        return x.to_local(copy=copy)

    return tree_map(convert, input)


@functools.cache
def _makers() -> frozenset[str]:
    """The functions that take ``placement`` and ``sbp``."""
    from oneflow import _oneflow

    compiled: Any = _oneflow._C
    names = [op["name"] for op in compiled._ops()]
    return frozenset(name.removesuffix(".global") for name in names if name.endswith(".global"))


class global_mode:
    """Within the context, functions that make tensors make global ones.

    Args:
        enabled: False: they make local ones, inside an outer context too.
        placement, sbp: of the tensors made.

    Raises:
        ValueError: enabled without a placement and an sbp.

    Example::

        >>> from oneflow.utils.global_view import global_mode
        >>> with global_mode(True, oneflow.placement.all("cpu"), oneflow.sbp.broadcast):
        ...     oneflow.zeros(2).is_global
        True
    """

    def __init__(self, enabled: bool, placement: Any = None, sbp: Any = None) -> None:
        if enabled and (placement is None or sbp is None):
            raise ValueError("global_mode: placement and sbp are needed where it is enabled")
        if not enabled and (placement is not None or sbp is not None):
            raise ValueError("global_mode: placement and sbp are given only where it is enabled")
        self._mode = _Mode(enabled, placement, sbp)

    def __enter__(self) -> global_mode:
        self._outer, current_global_mode._mode = current_global_mode._mode, self._mode
        self._mode.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._mode.__exit__(*(raised or (None, None, None)))
        current_global_mode._mode = self._outer


class _Mode(TorchFunctionMode):
    def __init__(self, enabled: bool, placement: Any, sbp: Any) -> None:
        self.enabled, self.placement, self.sbp = enabled, placement, sbp

    def __torch_function__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        made_here = name in _makers() and not types and "placement" not in kwargs
        if not self.enabled:
            if not made_here:
                return func(*args, **kwargs)
            with oneflow.overrides.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if made_here:
            kwargs.pop("device", None)
            kwargs |= {"placement": self.placement, "sbp": self.sbp}
        return func(*args, **kwargs)


class current_global_mode:
    """The context that new tensors are made in here.

    >>> from oneflow.utils.global_view import current_global_mode
    >>> current_global_mode().is_enabled
    False
    """

    _mode: _Mode | None = None

    def __init__(self) -> None:
        mode = type(self)._mode
        self.is_enabled = mode is not None and mode.enabled
        self.placement = mode.placement if mode is not None and mode.enabled else None
        self.sbp = mode.sbp if mode is not None and mode.enabled else None
