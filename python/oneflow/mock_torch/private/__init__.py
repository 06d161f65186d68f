"""Private names of PyTorch that packages reach for: modules found below ``torch`` while the mock is on, and only then.

Each holds what packages need to load and run, over what oneflow has; a name without a counterpart raises when used.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent


def find(name: str) -> str | None:
    """Return the module of this folder for a name such as "torch._C"; None if there is none."""
    if not name.startswith("torch."):
        return None
    path = _FOLDER.joinpath(*name.split(".")[1:])
    exists = path.with_suffix(".py").is_file() or path.joinpath("__init__.py").is_file()
    return __name__ + name.removeprefix("torch") if exists else None
