"""Names that oneflow lacks, under a lazy mock: placeholders that pass through imports and raise on use."""

from __future__ import annotations

import dis
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NoReturn

from oneflow.mock_torch import private

# Instructions of a program that names an attribute. `hasattr` and `getattr` are calls: they get the truth.
_NAMING = ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM", "LOAD_SUPER_ATTR")


def report(text: str) -> None:
    """Tell the user of a verbose mock."""
    sys.stderr.write(f"mock_torch: {text}\n")


def _is_named_by(frame: Any) -> bool:
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] in _NAMING


class Missing(ModuleType):
    """Stands for a module, class or function that oneflow lacks.

    It is false, an empty iterable, and may be called, subclassed and read for attributes, all of which return such
    placeholders again; so code that only mentions the name runs. Whatever needs a value raises, naming it.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, f"A placeholder for {name}, which oneflow does not provide.")
        vars(self)["__path__"] = []

    def __getattr__(self, name: str) -> Missing:
        if name.startswith("__"):
            raise AttributeError(f"{self.__name__} is missing in oneflow and has no attribute {name!r}")
        return Missing(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Missing:
        return Missing(f"{self.__name__}()")

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """As a base class it adds nothing."""
        return () if any(isinstance(base, type) for base in bases) else (object,)

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __subclasscheck__(self, subclass: type) -> bool:
        return False

    def __or__(self, other: Any) -> Any:
        """With a number it counts as nothing; otherwise an annotation is meant."""
        return other if isinstance(other, int) else Any

    __ror__ = __or__

    def __repr__(self) -> str:
        return f"<{self.__name__}, missing in oneflow>"


def _refuse(self: Missing, *args: Any) -> NoReturn:
    import oneflow

    raise NotImplementedError(
        f"{self.__name__} is not provided by oneflow {oneflow.__version__}; "
        "a placeholder stands for it because mock_torch is lazy"
    )


for _name in (
    *("enter", "getitem", "setitem", "float", "int", "index", "complex", "array", "neg", "invert", "abs", "await"),
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "radd", "rsub", "rmul", "rtruediv"),
    *("rfloordiv", "rmod", "rpow", "rmatmul", "lt", "le", "gt", "ge", "exit"),
):
    setattr(Missing, f"__{_name}__", _refuse)


class LazyModule(ModuleType):
    """A module of oneflow under another name; a name it lacks returns a :class:`Missing`."""

    def __init__(self, name: str, target: ModuleType, changed: dict[str, Any], verbose: bool) -> None:
        super().__init__(name, target.__doc__)
        held = {"__package__": target.__package__, "__file__": getattr(target, "__file__", None), **changed}
        vars(self).update(held, _target=target, _verbose=verbose)
        if hasattr(target, "__path__"):
            vars(self)["__path__"] = []

    def __getattr__(self, name: str) -> Any:
        own = f"{self.__name__}.{name}"
        if private.find(own):
            return importlib.import_module(own)
        try:
            value = getattr(self._target, name)
        except AttributeError:
            if name.startswith("__") or not _is_named_by(sys._getframe(1)):
                raise
            if self._verbose:
                report(f"{self._target.__name__} has no {name}: a placeholder stands for it")
            value = Missing(own)
        if isinstance(value, ModuleType) and value.__name__ == f"{self._target.__name__}.{name}":
            return importlib.import_module(own)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (LazyModule, Missing)) or name.startswith("__"):
            vars(self)[name] = value
        else:
            setattr(self._target, name, value)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._target), *vars(self)})
