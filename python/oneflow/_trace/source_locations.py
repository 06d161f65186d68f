"""The user's source location during a trace: lines of Python, and the module that is being called.

This file reads frames and tracebacks only; it knows nothing of what is traced.
"""

from __future__ import annotations

import dis
import sys
from pathlib import Path
from types import FrameType

import oneflow
from oneflow.nn.modules.module import Module

PACKAGE = str(Path(oneflow.__file__).parent)
# Every call of a module has a frame of this code.
_CALL = Module.__call__.__code__
_RAISE = dis.opmap["RAISE_VARARGS"]
# Exceptions whose text is their one argument. Other kinds, and those of users, are left as they are.
_PLAIN = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError, AttributeError, ImportError)


class SourceLocations:
    """Calling it returns the current source location of a trace, as text.

    Args:
        modules: paths of modules by their id.
        depth: the number of lines of Python, innermost first.
        only_user: whether to leave out lines of this package.
    """

    def __init__(self, modules: dict[int, str], depth: int = 1, only_user: bool = True) -> None:
        self._modules, self._depth, self._only_user = modules, depth, only_user

    def __call__(self) -> str | None:
        frame = sys._getframe(1)
        lines = _lines(frame, self._depth, self._only_user)
        while frame is not None and frame.f_code is not _CALL:
            frame = frame.f_back  # type: ignore[assignment]
        return self._text(lines, None if frame is None else frame.f_locals["self"])

    def of(self, error: BaseException) -> str | None:
        """Return where an error was raised: the user's line, and the innermost module that was being called."""
        line, module, trace = None, None, error.__traceback__
        while trace is not None:
            frame = trace.tb_frame
            if frame.f_code is _CALL:
                module = frame.f_locals["self"]
            if _is_users(frame):
                line = f"{frame.f_code.co_filename}:{trace.tb_lineno}"
            trace = trace.tb_next
        return self._text([] if line is None else [line], module)

    def annotate(self, error: BaseException, during: str) -> None:
        """Add the source location to the text of an error of this package, unless its traceback ends there."""
        where = self.of(error)
        if where is not None and type(error) in _PLAIN and len(error.args) == 1 and not _is_raised_by_user(error):
            error.args = (f"{error}\n  at {where}, while {during}",)

    def _text(self, lines: list[str], module: Module | None) -> str | None:
        where = [" < ".join(lines)] if lines else []
        if module is not None:
            where.append(f"module {self._modules.get(id(module)) or type(module).__name__}")
        return ", ".join(where) or None


def paths_of(modules: dict[str, Module]) -> dict[int, str]:
    """Return the dotted paths of modules and of their children, by id."""
    return {
        id(child): ".".join(part for part in (name, path) if part)
        for name, module in modules.items()
        for path, child in module.named_modules()
    }


def _is_users(frame: FrameType) -> bool:
    return not frame.f_code.co_filename.startswith((PACKAGE, "<"))


def _is_raised_by_user(error: BaseException) -> bool:
    """Return whether a ``raise`` or ``assert`` outside this package raised the error: its traceback suffices then."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not _is_users(trace.tb_frame):
        return False
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE


def _lines(frame: FrameType | None, depth: int, only_user: bool) -> list[str]:
    lines: list[str] = []
    while frame is not None and len(lines) < depth:
        file = frame.f_code.co_filename
        if not file.startswith("<") and not (only_user and file.startswith(PACKAGE)):
            lines.append(f"{file}:{frame.f_lineno}")
        frame = frame.f_back
    return lines


def user_depth() -> int:
    """Return the ``stacklevel`` at which a warning of the caller names the user's line."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        depth, frame = depth + 1, frame.f_back
    return depth
