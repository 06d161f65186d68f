"""The model library's own source, run by PyTorch: what the two are compared on is one text.

``models_on(package)`` returns ``oneflow.models`` for oneflow; for torch a second import of the same files in which
every ``oneflow`` reads ``torch``. That this works is itself a promise: the models are plain PyTorch code.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

NAME = "models_on_torch"
SOURCES = Path(__file__).parents[1] / "python" / "oneflow" / "models"


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        # Not by way of the cache of compiled files, which belongs to the original.
        text = Path(self.path).read_text(encoding="utf-8")
        text = re.sub(r"\boneflow\.models\b", NAME, text)
        return compile(re.sub(r"\boneflow\b", "torch", text), self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        first, *rest = fullname.split(".")
        if first != NAME:
            return None
        file = SOURCES.joinpath(*rest)
        folders = [str(file)] if file.is_dir() else None
        file = file / "__init__.py" if folders else file.with_suffix(".py")
        loader = _Loader(fullname, str(file))
        return importlib.util.spec_from_file_location(fullname, file, loader=loader, submodule_search_locations=folders)


def models_on(package: ModuleType) -> Any:
    """The model library on ``package``, which is ``oneflow`` or ``torch``."""
    if package.__name__ == "oneflow":
        return importlib.import_module("oneflow.models")
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    return importlib.import_module(NAME)
