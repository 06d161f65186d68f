"""Regions of module calls, by hooks on every module. Subclasses choose the names of regions."""

from __future__ import annotations

import threading
from typing import Any

import oneflow
from oneflow import _oneflow


class ModuleRegions:
    """From now until :meth:`remove`, each call of a module is a region of the profiler."""

    def __init__(self) -> None:
        hooks = oneflow.nn.modules.module
        self._names: dict[int, str] = {}
        # Modules that names were learnt of: the id of a living one is its own.
        self._kept: list[Any] = []
        self._open = threading.local()
        self._handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
        ]

    def _learn(self, module: Any) -> None:
        """Put the module's name under its id into ``_names``, and those of its children where they follow from it."""
        raise NotImplementedError

    def _enter(self, module: Any, args: Any) -> None:
        if id(module) not in self._names:
            self._kept.append(module)
            self._learn(module)
        if not hasattr(self._open, "stack"):
            self._open.stack = []
        self._open.stack.append((module, _oneflow._span_begin(self._names[id(module)], module=True)))

    def _leave(self, module: Any, args: Any, output: Any) -> None:
        stack = getattr(self._open, "stack", [])
        while stack:
            entered, token = stack.pop()
            if token is not None:
                _oneflow._span_end(token)
            if entered is module:
                return

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()
