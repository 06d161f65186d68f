"""``torch.utils._contextlib``: contexts that decorate functions too."""

from __future__ import annotations

from typing import Any

from oneflow.autograd.grad_mode import _DecoratorContextManager

__all__ = ["_DecoratorContextManager", "_NoParamDecoratorContextManager"]


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """A context without arguments, which decorates without parentheses too."""

    def __new__(cls, orig_func: Any = None) -> Any:
        return super().__new__(cls) if orig_func is None else cls()(orig_func)
