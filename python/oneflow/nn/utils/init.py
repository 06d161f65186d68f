"""Modules without their initial values."""

from __future__ import annotations

import inspect
from typing import Any

from oneflow.nn.modules.module import Module


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Make a module without computing its initial values: on the meta device first, then with empty memory.

    Raises:
        RuntimeError: it is no module class, or its constructor takes no ``device``.

    Example::

        >>> nn.utils.skip_init(nn.Linear, 2, 3).weight.shape
        oneflow.Size([3, 2])
    """
    if not (inspect.isclass(module_cls) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    final = kwargs.pop("device", "cpu")
    return module_cls(*args, **{**kwargs, "device": "meta"}).to_empty(device=final)
