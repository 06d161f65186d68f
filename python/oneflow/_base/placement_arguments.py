"""``placement`` and ``sbp`` arguments of functions that create tensors and are written in Python."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from oneflow import Tensor, _oneflow

_Function = TypeVar("_Function", bound=Callable[..., Tensor])


def takes_placement(function: _Function) -> _Function:
    """Decorate a function to take ``placement`` and ``sbp``, or those of ``global_mode``: each rank keeps its shard."""

    @functools.wraps(function)
    def wrapper(*args: Any, placement: Any = None, sbp: Any = None, **kwargs: Any) -> Tensor:
        default = _oneflow._default_layout()
        if placement is None and sbp is None:
            if default is None:
                return function(*args, **kwargs)
            kwargs.pop("device", None)
            placement, sbp = default
        elif kwargs.get("device") is not None:
            raise TypeError(f"{function.__name__}(): 'device' cannot be combined with 'placement'")
        requires_grad = kwargs.pop("requires_grad", False)
        _oneflow._set_default_layout(None)
        try:
            made = function(*args, **kwargs)
        finally:
            _oneflow._set_default_layout(default)
        result: Tensor = _oneflow._placed(made, placement, sbp, function.__name__)
        return result.requires_grad_() if requires_grad else result

    return wrapper  # type: ignore[return-value]
