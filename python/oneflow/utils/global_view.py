"""Conversions of nests of tensors between global and local, and a context in which new tensors are global."""

from __future__ import annotations

import functools
import inspect
import warnings
from typing import Any

from oneflow import Tensor, _oneflow
from oneflow.utils._pytree import tree_map

__all__ = ["current_global_mode", "global_mode", "to_global", "to_local"]


def to_global(input: Any, placement: Any = None, sbp: Any = None, **kwargs: Any) -> Any:
    """Make every tensor of a nest global; other values stay.

    Args:
        input: a tensor, or tuples, lists and dictionaries of tensors; a state_dict of several ranks for instance.
        placement, sbp, **kwargs: as for ``Tensor.to_global``; ``sbp`` may be a function of the tensor, or of the
            nest and the tensor.

    Raises:
        ValueError: neither placement nor sbp is given.

    Example::

        >>> oneflow.testing.run_ranks(2, lambda: oneflow.utils.global_view.to_global({"x": oneflow.ones(2)},
        ...     oneflow.placement.all("cpu"), oneflow.sbp.split(0))["x"].shape)
        [oneflow.Size([4]), oneflow.Size([4])]
    """
    if placement is None and sbp is None:
        raise ValueError("to_global: placement and sbp can not be both None")

    choose = _choice(sbp, input)

    def convert(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        return x.to_global(placement, sbp if choose is None else choose(x), **kwargs)

    return tree_map(convert, input)


def _choice(sbp: Any, nest: Any) -> Any:
    """``sbp`` as a function of a tensor, if it is a function of that or of the nest and that."""
    if not (inspect.isroutine(sbp) or isinstance(sbp, functools.partial)):
        return None
    taken = [p for p in inspect.signature(sbp).parameters.values() if p.default is p.empty]
    several = len([p for p in taken if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]) > 1
    return functools.partial(sbp, nest) if several else sbp


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


class global_mode:
    """Within the context, functions that make tensors make global ones, on the thread that entered it.

    They are all that take ``placement`` and ``sbp``; a ``device`` has no effect then. Tensors created like
    a global tensor (``zeros_like``, ``new_ones``) keep its layout.

    Args:
        enabled: False: they make local ones, inside an outer context too.
        placement, sbp: of the new tensors.

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
        self._layout = (placement, sbp) if enabled else None

    def __enter__(self) -> global_mode:
        self._outer = _oneflow._set_default_layout(self._layout)
        return self

    def __exit__(self, *raised: Any) -> None:
        _oneflow._set_default_layout(self._outer)


class current_global_mode:
    """Return the context in which new tensors are global.

    >>> from oneflow.utils.global_view import current_global_mode
    >>> current_global_mode().is_enabled
    False
    """

    def __init__(self) -> None:
        layout = _oneflow._default_layout()
        self.is_enabled = layout is not None
        self.placement = layout[0] if layout else None
        self.sbp: Any = None
        if layout:
            self.sbp = layout[1][0] if len(layout[1]) == 1 else layout[1]
