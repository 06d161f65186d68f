"""The error for a name that the package lacks. It suggests similar names."""

from __future__ import annotations

import difflib
from types import ModuleType


class MissingName(AttributeError):
    """No such name in a module.

    Similar names are searched when the text is read: programs probe for many names with ``hasattr``.
    """

    def __init__(self, name: str, obj: ModuleType, note: str = "") -> None:
        super().__init__(f"module '{obj.__name__}' has no attribute '{name}'{note}", name=name, obj=obj)

    def __str__(self) -> str:
        text = super().__str__()
        names = [name for name in dir(self.obj) if name.startswith("_") == self.name.startswith("_")]
        similar = difflib.get_close_matches(self.name, names, n=1, cutoff=0.7)
        return f"{text}. Did you mean: '{similar[0]}'?" if similar else text
