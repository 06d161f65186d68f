"""Run packages that were written for PyTorch on oneflow: while the mock is on, ``import torch`` returns oneflow.

>>> import oneflow.mock_torch as mock
>>> with mock.enable():
...     import torch
...     torch.nn.Linear(2, 3)(torch.ones(1, 2)).shape
torch.Size([1, 3])

Dtypes, layouts and sizes then show themselves as PyTorch's, since programs compare these texts.

For programs that are started from a shell, without touching them::

    eval $(oneflow-mock-torch)              # or: eval $(python -m oneflow.mock_torch)
    python train.py
    eval $(oneflow-mock-torch disable)

Environment: ``ONEFLOW_MOCK_TORCH_LAZY`` and ``ONEFLOW_MOCK_TORCH_VERBOSE`` are the defaults of the arguments ``lazy``
and ``verbose``; with ``ONEFLOW_DISABLE_MOCK_TORCH`` set, :func:`enable` does nothing.

A package whose compiled part imported PyTorch before keeps it: its imports cannot be replaced.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

import oneflow
from oneflow._base import conventions
from oneflow.mock_torch import _importer, _metadata
from oneflow.mock_torch._importer import OFF, State

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["disable", "enable", "is_enabled"]


def is_enabled() -> bool:
    """Return whether ``import torch`` gives oneflow now."""
    return _importer.current() is not OFF


class _Switch:
    """Switches to ``state``; the end of a ``with`` block switches back."""

    def __init__(self, state: State, caller: dict[str, Any]) -> None:
        self._before = _importer.switch(state, caller)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _importer.switch(self._before, sys._getframe(1).f_globals)


class enable(_Switch):
    """Let ``import torch`` return oneflow, from here on or in a ``with`` block. Blocks nest.

    Modules of PyTorch that are loaded already leave ``sys.modules`` and the caller's globals, and come back when the
    mock ends.

    Args:
        lazy: a name that oneflow lacks becomes a placeholder, false and empty, that raises when it is used;
            without, asking for it is an error at once.
        verbose: print each name that is missing, to standard error.
        extra_dict: more modules to replace: the imported name, and the module, or its name, that replaces it.
        main_pkg: a package that was imported before and is imported again under the mock, along with what it requires.
        mock_version: the version that PyTorch seems to have; under OneFlow's conventions oneflow's if none is given.
        required_dependencies: further packages to be imported again.

    Raises:
        importlib.metadata.PackageNotFoundError: ``main_pkg`` is not installed.
    """

    def __init__(
        self,
        lazy: bool | None = None,
        verbose: bool | None = None,
        extra_dict: Mapping[str, str | ModuleType] | None = None,
        *,
        main_pkg: str | None = None,
        mock_version: str | None = None,
        required_dependencies: Iterable[str] | None = None,
    ) -> None:
        caller = sys._getframe(1).f_globals
        if _importer.flag("ONEFLOW_DISABLE_MOCK_TORCH"):
            super().__init__(_importer.current(), caller)
            return
        state = State(
            replaced=(("torch", "oneflow"), _FUNCTORCH, *(extra_dict or {}).items()),
            lazy=_importer.flag("ONEFLOW_MOCK_TORCH_LAZY") if lazy is None else bool(lazy),
            verbose=_importer.flag("ONEFLOW_MOCK_TORCH_VERBOSE") if verbose is None else bool(verbose),
            version=mock_version or (oneflow.__version__ if conventions.are_oneflows() else _metadata.VERSION),
            fresh=tuple(sorted({*_metadata.modules_of(main_pkg), *(required_dependencies or ())})),
        )
        super().__init__(state, caller)


# The package that PyTorch installs beside itself, under the name it had before torch.func.
_FUNCTORCH = ("functorch", "oneflow.mock_torch.private.functorch")


class disable(_Switch):
    """Let ``import torch`` return PyTorch again: for good, or in a ``with`` block, inside it.

    Modules that were imported under the mock keep the oneflow they saw.
    """

    def __init__(self) -> None:
        super().__init__(OFF, sys._getframe(1).f_globals)
