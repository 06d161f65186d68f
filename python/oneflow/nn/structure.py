"""What a traced function depends on: the nested values that go in and out, its modules, the thread's modes."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn.modules.module import Module

_PACKAGE = str(Path(oneflow.__file__).parent)
TENSOR = "<tensor>"


def flatten(value: Any, tensors: list[Tensor], what: str) -> Any:
    """Collect the tensors of a nested value; return its structure, which can be hashed.

    Numbers and strings are part of the structure, except in an "output".
    """
    if isinstance(value, Tensor):
        tensors.append(value)
        return TENSOR
    if isinstance(value, (list, tuple)):
        parts = tuple(flatten(v, tensors, what) for v in value)
        return ("namedtuple" if hasattr(value, "_fields") else type(value).__name__, type(value), parts)
    if isinstance(value, dict):
        return ("dict", type(value), tuple((k, flatten(v, tensors, what)) for k, v in value.items()))
    if value is None or (what != "output" and isinstance(value, (bool, int, float, str))):
        return ("constant", type(value), value)
    raise TypeError(
        f"nn.Graph: an {what} of type {type(value).__name__} is not supported: "
        "expected Tensor, None, list, tuple or dict"
    )


def unflatten(structure: Any, tensors: Iterator[Any]) -> Any:
    """Put tensors into a structure that :func:`flatten` returned."""
    if structure == TENSOR:
        return next(tensors)
    kind, cls, content = structure
    if kind == "constant":
        return content
    if kind == "dict":
        items = [(k, unflatten(v, tensors)) for k, v in content]
        return cls(items) if issubclass(cls, OrderedDict) else dict(items)
    parts = [unflatten(v, tensors) for v in content]
    if kind == "namedtuple":
        return cls(*parts)
    return parts if issubclass(cls, list) else tuple(parts)


class Modules:
    """The modules below (and with) some, each once, and what of them decides a trace.

    Who keeps a key keeps this object too: a key tells children and tensors apart by identity.
    """

    def __init__(self, roots: Iterable[Module]) -> None:
        self._all = list({id(m): m for root in roots for m in root.modules()}.values())
        # Live views: what a module gains, loses or replaces is seen without asking every module again.
        self._held = [part.values() for m in self._all for part in (m._modules, m._parameters, m._buffers)]

    def key(self) -> tuple[Any, ...]:
        """Modes, and which children, parameters and buffers the modules hold. Part of every call."""
        return (*[m.training for m in self._all], *map(id, chain.from_iterable(self._held)))


def modes_key() -> tuple[Any, ...]:
    """The switches of this thread that decide what ops do: gradients, default dtype, autocast."""
    kinds = [kind for kind in ("cpu", "cuda") if oneflow.is_autocast_enabled(kind)]
    casts = [(kind, oneflow.get_autocast_dtype(kind)) for kind in kinds]
    return (oneflow.is_grad_enabled(), oneflow.get_default_dtype(), *casts)


def user_line() -> str | None:
    """File and line of the innermost frame outside this package."""
    return user_stack(sys._getframe(1), 1, True)


def user_stack(frame: Any, depth: int, only_user: bool) -> str | None:
    """Files and lines of up to ``depth`` frames, innermost first; of this package's frames none if ``only_user``."""
    lines: list[str] = []
    while frame is not None and len(lines) < depth:
        file = frame.f_code.co_filename
        if not file.startswith("<") and not (only_user and file.startswith(_PACKAGE)):
            lines.append(f"{file}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(lines) or None
