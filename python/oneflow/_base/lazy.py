"""Names of a package that are imported on first use, so that importing the package stays fast."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import Any

from oneflow._base.missing_names import MissingName
from oneflow._base.overridable import FUNCTION_MODULES, overridable


class LazyNames:
    """Implements a package's ``__getattr__`` and ``__dir__``.

    Args:
        package: the package's name.
        modules: its sub-modules that are imported on first use.
        names: public names and the module below ``oneflow`` that defines them, grouped by that module.
        families: prefixes of names, by the module that defines all names with that prefix.
        note: text of the error for a name that is missing.
    """

    def __init__(
        self,
        package: str,
        modules: Iterable[str],
        names: Mapping[str, Iterable[str]] | None = None,
        families: Mapping[str, str] | None = None,
        note: str = ": this version of oneflow does not provide it",
    ) -> None:
        self.package = package
        self.modules = frozenset(modules)
        self.homes = {name: f"oneflow.{home}" for home, held in (names or {}).items() for name in held}
        self.families = {prefix: f"oneflow.{home}" for home, prefix in (families or {}).items()}
        self.note = note

    def find(self, name: str) -> Any:
        """The sub-module of this name, or what its home holds under it; raises AttributeError for any other."""
        if name in self.modules:
            return importlib.import_module(f"{self.package}.{name}")
        if name in self.homes:
            value = getattr(importlib.import_module(self.homes[name]), name)
            is_bare = isinstance(value, FunctionType) and value.__module__.startswith(FUNCTION_MODULES)
            return overridable(value, module=self.package) if is_bare else value
        for prefix, home in self.families.items():
            if name.startswith(prefix) and hasattr(module := importlib.import_module(home), name):
                return getattr(module, name)
        raise MissingName(name, sys.modules[self.package], self.note)

    def dir(self) -> list[str]:
        """All names of the package."""
        return sorted({*vars(sys.modules[self.package]), *self.modules, *self.homes})
