"""Package metadata of PyTorch: serves ``importlib.metadata`` for ``torch`` while the mock is on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

# The folder on the path of programs started from a shell. The version is read from its metadata alone.
SHELL = Path(__file__).with_name("shell")
_INFO = next(SHELL.glob("torch-*.dist-info"))
VERSION = metadata.Distribution.at(_INFO).version


class Torch(metadata.Distribution):
    """The distribution ``torch`` as the mock pretends it to be installed."""

    def __init__(self, version: str) -> None:
        self._version = version

    def read_text(self, filename: str) -> str | None:
        """Return the text of a file of the metadata; None if there is no such file."""
        if filename != "METADATA":
            return None
        return (_INFO / filename).read_text("utf-8").replace(f"Version: {VERSION}\n", f"Version: {self._version}\n", 1)

    def locate_file(self, path: Any) -> Any:
        """Return the path of an installed file of the distribution."""
        return SHELL / path


def modules_of(distribution: str | None) -> set[str]:
    """Top-level modules of an installed distribution and of all it requires, but for PyTorch's own."""
    if distribution is None:
        return set()
    found: dict[str, metadata.Distribution] = {_plain(distribution): metadata.distribution(distribution)}
    waiting = list(found.values())
    while waiting:
        for name in _requirements(waiting.pop()):
            if name in found or name == "torch":
                continue
            try:
                found[name] = metadata.distribution(name)
            except metadata.PackageNotFoundError:
                continue
            waiting.append(found[name])
    provided = metadata.packages_distributions()
    names = {module for module, owners in provided.items() if any(_plain(owner) in found for owner in owners)}
    return names | {name.replace("-", "_") for name in found}


def _requirements(distribution: metadata.Distribution) -> Iterator[str]:
    for line in distribution.requires or ():
        if "extra ==" not in line and (name := re.match(r"[\w.-]+", line)):
            yield _plain(name.group())


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
