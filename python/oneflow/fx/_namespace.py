"""Names of values in a graph and in generated code: unique, valid in Python, hiding no builtin."""

from __future__ import annotations

import builtins
import keyword
import math
import re
from typing import Any, NamedTuple

import oneflow
from oneflow.fx import _pytree as _fx_pytree
from oneflow.fx import _targets
from oneflow.utils import _pytree


class Global(NamedTuple):
    """A name that all generated code may use: how it is imported, and what it is."""

    import_str: str
    obj: Any


def standard_globals() -> dict[str, Global]:
    """The names that all generated code may use."""
    library = _targets.library()
    found = {
        "inf": Global("from math import inf", math.inf),
        "nan": Global("from math import nan", math.nan),
        "NoneType": Global("NoneType = type(None)", type(None)),
        "oneflow": Global("import oneflow", oneflow),
        "device": Global("from oneflow import device", oneflow.device),
        "fx_pytree": Global("import oneflow.fx._pytree as fx_pytree", _fx_pytree),
        "pytree": Global("import oneflow.utils._pytree as pytree", _pytree),
    }
    if library != "oneflow":
        import importlib

        found[library] = Global(f"import {library}", importlib.import_module(library))
    return found


_STANDARD = standard_globals()
_RESERVED: dict[str, Any] = {
    **{name: object() for name in (*keyword.kwlist, "torch")},
    **vars(builtins),
    **{name: entry.obj for name, entry in _STANDARD.items()},
}
_NAME = re.compile(r"([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?")


def snake_case(text: str) -> str:
    """``text`` in lower case, an underscore before each capital that follows a small letter."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", text).lower()


class Namespace:
    """Gives each object one name, and each name to one object."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._used: set[str] = set()
        # The last number that was appended to each name.
        self._last: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any = None) -> str:
        """A new name like ``candidate``; the name of ``obj``, if that has one already."""
        if obj is not None and obj in self._names:
            return self._names[obj]
        match = _NAME.fullmatch(candidate)
        if match is None:
            candidate = re.sub("[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
            if candidate[0].isdigit():
                candidate = f"_{candidate}"
            match = _NAME.fullmatch(candidate)
            assert match is not None
        base, number = match.groups()
        if number is not None and candidate not in self._used:
            last = int(number)
        else:
            last = self._last.get(base, 0)
            if _RESERVED.get(candidate, obj) is not obj:
                last += 1
                candidate = f"{base}_{last}"
        while candidate in self._used:
            last += 1
            candidate = f"{base}_{last}"
        self._used.add(candidate)
        self._last[base] = last
        if obj is not None:
            self._names[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Note that ``name``, which :meth:`create_name` gave, belongs to ``obj``."""
        if self._names.setdefault(obj, name) is not name:
            raise AssertionError("obj is already associated")

    def _rename_object(self, obj: Any, name: str) -> None:
        if obj not in self._names:
            raise AssertionError(f"Object {obj} is not in _obj_to_name")
        self._names[obj] = name
        self._used.add(name)
