"""Stand-ins for names that the files of a suite mention while they load and that the package under test lacks.

A suite of another version of PyTorch mentions names that have gone or come since. Loading stops at the first of them,
and with it every case of the file. So a missing name gets a placeholder, and loading starts again; once loading is over
a placeholder raises wherever it is used, so no case passes because of one.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any

_loading = False


class Placeholder(ModuleType):
    """A name that is missing: empty and false; while files load also a base class, a decorator, a function."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        vars(self)["__path__"] = []

    def _check(self) -> None:
        if not _loading:
            raise NotImplementedError(f"{self.__name__} is missing: a placeholder stands for it")

    def __getattr__(self, name: str) -> Any:
        if name == "__all__" and _loading:
            # A package of which lists are made: it has no names.
            return []
        if name.startswith("__"):
            raise AttributeError(name)
        self._check()
        return Placeholder(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._check()
        called = Placeholder(f"{self.__name__}()")
        if len(args) == 1 and not kwargs and isinstance(args[0], FunctionType):
            return _decorated(args[0], called)
        return called

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (_Missing,)

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __getitem__(self, key: Any) -> Placeholder:
        self._check()
        return self

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __subclasscheck__(self, subclass: type) -> bool:
        return False

    def __deepcopy__(self, memo: dict[int, Any]) -> Placeholder:
        return self

    def __or__(self, other: Any) -> Any:
        return other

    __ror__ = __or__

    def __lt__(self, other: Any) -> bool:
        self._check()
        return False

    __le__ = __gt__ = __ge__ = __lt__


class _Missing:
    """The base of classes whose own base is missing: they can be made while files load."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not _loading:
            raise AttributeError(name)
        return Placeholder(f"{type(self).__name__}.{name}")


def _decorated(function: FunctionType, missing: Placeholder) -> FunctionType:
    """A function under a missing decorator: tools may look at it, and a call raises."""

    @functools.wraps(function)
    def refuse(*args: Any, **kwargs: Any) -> None:
        missing._check()

    return refuse  # type: ignore[return-value]


def load(action: Callable[[], Any], known: Sequence[str] = (), limit: int = 200) -> tuple[Any, list[str]]:
    """Run ``action``, which imports something, with a placeholder for each name that it finds missing.

    Each missing name costs a start from the beginning, so those ``known`` from another run get theirs at once.
    Returns what it returns, and the missing names.
    """
    global _loading
    missing: list[str] = []
    _loading = True
    try:
        missing += [name for name in known if _fill_known(name)]
        while True:
            before = set(sys.modules)
            for undo in before_start:
                undo()
            try:
                return action(), missing
            except (AttributeError, ImportError) as error:
                name = _fill(error)
                if name is None or name in missing or len(missing) == limit:
                    raise
                missing.append(name)
            # A module that holds a placeholder stays, or the next start would miss the name again.
            holder = name.rpartition(".")[0]
            for loaded in set(sys.modules) - before - {holder}:
                if _is_of_suite(sys.modules[loaded]):
                    del sys.modules[loaded]
    finally:
        _loading = False


roots: list[str] = []
# Called before each start.
before_start: list[Callable[[], None]] = []


def _is_of_suite(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and any(file.startswith(root) for root in roots)


def _fill_known(name: str) -> bool:
    """Put a placeholder where a name is still missing that another run had to fill."""
    parent, _, leaf = name.rpartition(".")
    try:
        if importlib.util.find_spec(name) is not None:
            return False
    except (ImportError, AttributeError, ValueError):
        pass
    try:
        holder = importlib.import_module(parent)
    except ImportError:
        return False
    if hasattr(holder, leaf):
        return False
    placeholder = Placeholder(name)
    setattr(holder, leaf, placeholder)
    # Whether it was looked up as a module is unknown.
    sys.modules.setdefault(name, placeholder)
    return True


def _fill(error: AttributeError | ImportError) -> str | None:
    """Put a placeholder where the name that ``error`` speaks of was looked for; its full name, or None."""
    if isinstance(error, ModuleNotFoundError):
        if error.name is None:
            return None
        placeholder = Placeholder(error.name)
        sys.modules[error.name] = placeholder
        parent, _, leaf = error.name.rpartition(".")
        if parent:
            setattr(importlib.import_module(parent), leaf, placeholder)
        return error.name
    if isinstance(error, ImportError):
        found = re.match(r"cannot import name '(\w+)' from '([\w.]+)'", str(error))
        holder: Any = sys.modules.get(found[2]) if found else None
        name = found[1] if found else ""
    else:
        holder, name = error.obj, error.name or ""
    if holder is None or not name or name.startswith("__"):
        return None
    full = f"{getattr(holder, '__name__', type(holder).__name__)}.{name}"
    try:
        setattr(holder, name, Placeholder(full))
    except (AttributeError, TypeError):
        return None
    return full
