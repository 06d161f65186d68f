"""A compiled module, which is the module inside in all but its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow.nn.modules.module import Module

_OWN = frozenset(("_orig_mod", "training"))


class OptimizedModule(Module):
    """A compiled module. Attributes, parameters and modes are those of the module inside, ``_orig_mod``.

    Example::

        >>> type(oneflow.compile(nn.Linear(2, 1))).__name__
        'OptimizedModule'
    """

    def __init__(self, module: Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self._modules["_orig_mod"] = module
        self.__dict__["_compiled_call"] = call

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the compiled module."""
        return self._compiled_call(*args, **kwargs)

    @property
    def training(self) -> bool:
        """The mode of the module inside."""
        module = self.__dict__.get("_modules", {}).get("_orig_mod")
        return True if module is None else module.training

    @training.setter
    def training(self, mode: bool) -> None:
        module = self.__dict__.get("_modules", {}).get("_orig_mod")
        if module is not None:
            module.training = mode

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_orig_mod":
                raise
            return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or name in self.__dict__ or "_modules" not in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __bool__(self) -> bool:
        return True
